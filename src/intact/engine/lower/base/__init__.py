"""What rules build a plan with: values of the graph on one side, steps and tensors on the other."""
