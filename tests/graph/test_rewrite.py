"""The driver of rewrites: what it asks of records, what it says, and what holds of every record."""

from __future__ import annotations

import onnx
import pytest

from intact.errors import UnsupportedError
from intact.graph import Rewrite, load, pipelines, run_stages, silent
from intact.graph.rewrites.rewrite import Ensures, Pass, Requires, Stays

PIPELINES = ("IMPORT", "NORMALIZE", "KNOWN_FORMS", "PTQ", "FLOAT", "EXPLAIN", "CACHE", "TORCH")
TEXT = """
<ir_version: 8, opset_import: ["" : {opset}]>
net (float[4] x) => (float[4] y) {{
   [first] a = Relu (x)
   [second] b = Neg (a)
   [third] y = Relu (b)
}}
"""


def model(opset: int = 17):
    return load(onnx.parser.parse_model(TEXT.format(opset=opset)))


def rename_to_abs(node, scene):
    node.op_type = "Abs"
    return "a Relu is an Abs"


def test_nodes_of_its_kind_are_rewritten_in_order():
    net = model()
    notes = Rewrite("write Relu as Abs", rename_to_abs, ("Relu",))(net)
    assert [str(note) for note in notes] == [
        "write Relu as Abs: first: a Relu is an Abs", "write Relu as Abs: third: a Relu is an Abs",
    ]  # fmt: skip
    assert [node.op_type for node in net.graph] == ["Abs", "Neg", "Abs"]


def test_a_reason_to_stay_is_a_note_that_changed_nothing():
    rewrite = Rewrite("leave Neg", lambda node, scene: Stays("it is well as it is"), ("Neg",))
    (note,) = rewrite(model())
    assert (note.node, note.what, note.changed) == ("second", "it is well as it is", False)


def test_what_it_needs_is_there_before_it_begins():
    net, seen = model(opset=13), []

    def look(node, scene):
        seen.append((net.opset_imports[""], node.name))

    rewrite = Rewrite(
        "look", look, ("Relu",), matches=lambda n: n.name == "third", requires=Requires(opset=18)
    )
    assert rewrite(net) == [] and seen == [(18, "third")]
    untouched = model(opset=13)
    assert Rewrite("look", look, ("Conv",), requires=Requires(opset=18))(untouched) == []
    assert untouched.opset_imports[""] == 13  # nothing to rewrite: nothing is raised


def test_a_node_that_another_took_along_is_left_alone():
    net = model()

    def remove(node, scene):
        for other in [n for n in scene.graph if n.name == "third"]:
            scene.replace(other, other.inputs[0])
        return "the last one goes"

    (note,) = Rewrite("drop the last", remove, ("Relu",))(net)
    assert note.node == "first"


def test_a_rewrite_that_breaks_the_graph_is_named():
    def put_last(node, scene):
        scene.graph.remove(node)
        scene.graph.append(node)
        return "it stands last"

    with pytest.raises(UnsupportedError, match="after 'put Neg last'"):
        run_stages(model(), [Rewrite("put Neg last", put_last, ("Neg",))])


def test_a_node_that_it_promised_to_replace_needs_a_reason_to_stay():
    def rewrite_first(node, scene):
        return rename_to_abs(node, scene) if node.name == "first" else None

    record = Rewrite("write Relu as Abs", rewrite_first, ("Relu",), ensures=Ensures(gone=True))
    with pytest.raises(UnsupportedError, match=r"'third' \(Relu\).*left by 'write Relu as Abs'"):
        record(model())

    def explain(node, scene):
        return rewrite_first(node, scene) or Stays("it is the last")

    notes = Rewrite("write Relu as Abs", explain, ("Relu",), ensures=Ensures(gone=True))(model())
    assert [note.changed for note in notes] == [True, False]


def test_a_rewrite_keeps_the_names_and_types_of_outputs():
    def rename_output(node, scene):
        node.outputs[0].name = "z"
        return "the output is called z"

    record = Rewrite("rename", rename_output, ("Relu",), matches=lambda n: n.name == "third")
    with pytest.raises(UnsupportedError, match="inputs or outputs of other names or types after 'rename'"):
        record(model())


def test_nodes_whose_ranks_it_needs_and_nobody_knows_stay():
    net = model()
    next(node for node in net.graph if node.name == "third").inputs[0].shape = None
    (note,) = Rewrite("write Relu as Abs", rename_to_abs, ("Relu",), requires=Requires(ranks=(0,)))(net)
    assert note.node == "first"


def test_backwards_is_from_the_outputs():
    notes = Rewrite("write Relu as Abs", rename_to_abs, ("Relu",), backwards=True)(model())
    assert [note.node for note in notes] == ["third", "first"]


def test_shapes_are_inferred_and_what_nobody_reads_goes():
    def leave_over(node, scene):
        insert = scene.inserter(node)
        insert.node("Abs", [node.inputs[0]], "unread", dtype=None, shape=None)
        result = insert.node("Neg", [node.inputs[0]], "other", dtype=None, shape=None)
        scene.replace(node, result)
        return "it is negated"

    net = model()
    ensures = Ensures(shapes=True, read=True)
    assert len(Rewrite("negate", leave_over, ("Relu",), ensures=ensures)(net)) == 2
    assert [node.op_type for node in net.graph] == ["Neg"] * 3
    assert all(node.outputs[0].shape is not None for node in net.graph)


@pytest.mark.parametrize("name", PIPELINES)
def test_lists_can_be_printed_and_have_one_name_for_each_stage(name):
    stages = getattr(pipelines, name)
    names = [stage.name for stage in stages]
    assert all(names) and len(set(names)) >= len({id(stage) for stage in stages})


@pytest.mark.parametrize("name", PIPELINES)
def test_a_model_in_the_form_that_a_list_makes_stays(name):
    net = model()
    run_stages(net, getattr(pipelines, name))
    before = [str(node) for node in net.graph]
    assert run_stages(net, getattr(pipelines, name)) == []
    assert [str(node) for node in net.graph] == before


def test_a_silent_pass_says_nothing():
    assert silent("look away", lambda net: [1, 2])(model()) == []
    assert isinstance(silent("look away", len), Pass)
