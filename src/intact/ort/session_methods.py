"""Methods of `onnxruntime.InferenceSession` that look at a session's runs; others stay as they are."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from intact.ort.background import background, report_fault
from intact.ort.policies import Policy, current_policy, is_switched_off
from intact.ort.session_signature import ATTRIBUTE, altered_options, signature_of
from intact.processes import renew_in_child

if TYPE_CHECKING:
    from intact.ort.model_identity import ModelIdentity
    from intact.ort.served_model import ServedModel

_OWN_USERS = frozenset({"intact", "onnxruntime"})
"""Packages whose own sessions are left alone: ONNX Runtime's tools measure ONNX Runtime."""
_MOST_MODELS = 64


class _Registry:
    """Holds the models of this process, one for all sessions of a content, threads and policy."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: OrderedDict[Any, ServedModel] = OrderedDict()
        self.refused: dict[str, str] = {}
        renew_in_child(self)

    def after_fork(self) -> None:
        """Renew the lock."""
        self._lock = threading.Lock()

    def get(self, key: Any, make: Callable[[], ServedModel]) -> ServedModel:
        """Return the model of a key, made where it is new."""
        with self._lock:
            model = self._models.get(key)
            if model is None:
                model = self._models[key] = make()
                while len(self._models) > _MOST_MODELS:
                    _, oldest = self._models.popitem(last=False)
                    oldest.save_record()
            self._models.move_to_end(key)
            return model

    def models(self) -> list[ServedModel]:
        """Return all models, the one used last at the end."""
        with self._lock:
            return list(self._models.values())

    def clear(self) -> None:
        """Forget all models, and what they have read of each other; sessions keep theirs."""
        from intact.ort.trials.chains import forget_flows

        forget_flows()
        with self._lock:
            self._models.clear()
            self.refused.clear()


registry = _Registry()
"""The models of this process."""


def session_methods(session_class: Any) -> dict[str, Callable[..., Any]]:
    """Return methods to take the place of those of ONNX Runtime's `InferenceSession`.

    Args:
        session_class: ONNX Runtime's class, unchanged.
    """
    init, run, run_values = session_class.__init__, session_class.run, session_class.run_with_ort_values

    @functools.wraps(init)
    def __init__(self: Any, path_or_bytes: Any, *args: Any, **kwargs: Any) -> None:
        rules = _rules()
        options = args[0] if args else kwargs.get("sess_options")
        identity = None if rules is None else _identify(path_or_bytes)
        init(self, path_or_bytes, *args, **kwargs)
        if rules is not None:
            _attach(self, identity, path_or_bytes, options, rules, run)

    @functools.wraps(run)
    def run_session(self: Any, output_names: Any, input_feed: Any, run_options: Any = None) -> Any:
        attached = self.__dict__.get(ATTRIBUTE)
        if attached is None or attached[0] is not self._sess:  # `set_providers` makes another
            return run(self, output_names, input_feed, run_options)
        return attached[1].run(self, output_names, input_feed, run_options)

    @functools.wraps(run_values)
    def run_with_ort_values(
        self: Any, output_names: Any, input_dict_ort_values: Any, run_options: Any = None
    ) -> Any:  # fmt: skip
        attached = self.__dict__.get(ATTRIBUTE)
        if attached is not None and attached[0] is self._sess and attached[1].has_engine:
            values = _run_values(attached[1], self, output_names, input_dict_ort_values, run_options)
            if values is not None:
                return values
        return run_values(self, output_names, input_dict_ort_values, run_options)

    return {"__init__": __init__, "run": run_session, "run_with_ort_values": run_with_ort_values}


def _rules() -> Policy | None:
    """Return the policy for a new session; None where it is to be left alone."""
    caller = sys._getframe(2).f_globals.get("__name__", "")
    if caller.partition(".")[0] in _OWN_USERS or is_switched_off() or background.is_stopped:
        return None
    try:
        rules = current_policy()
    except Exception as error:  # a damaged variable: the program shall run
        report_fault(error)
        return None
    return None if rules.mode == "off" else rules


def _identify(source: Any) -> ModelIdentity | None:
    from intact.ort.model_identity import identify  # loaded with the first session

    try:
        return identify(source) if isinstance(source, str | os.PathLike | bytes) else None
    except Exception as error:
        report_fault(error)
        return None


def _attach(
    session: Any, identity: ModelIdentity | None, source: Any, options: Any, rules: Policy, run: Any
) -> None:
    """Let a model look at the runs of a session; note why where it cannot."""
    try:
        from intact.ort.served_model import ServedModel

        why = _why_not(identity, options)
        signature = signature_of(session)
        if identity is None or why or isinstance(signature, str):
            name = "bytes" if isinstance(source, bytes) else str(source)
            registry.refused[name] = why or str(signature)
            return
        key = (identity.digest, signature, rules)
        model = registry.get(key, lambda: ServedModel(identity, signature, rules, run))
        model.attach(session)
    except Exception as error:  # whatever it is, the session works without
        report_fault(error)


def _why_not(identity: ModelIdentity | None, options: Any) -> str:
    if identity is None:
        return "its file cannot be read, or is too large"
    if not identity.is_unchanged:
        return "its file changed while the session was made"
    if options is not None and options in altered_options:
        return "the program hands initializers over in memory"
    return ""


def _run_values(model: ServedModel, session: Any, names: Any, values: Any, options: Any) -> list[Any] | None:
    """Return the engine's outputs as values of ONNX Runtime; None where it has to answer itself."""
    try:
        from onnxruntime import OrtValue

        if options is not None or any(value.device_name() != "cpu" for value in values.values()):
            return None
        feed = {name: value.numpy() for name, value in values.items()}
        results = model.run_in_engine(session, names, feed)
        return None if results is None else [OrtValue.ortvalue_from_numpy(result) for result in results]
    except Exception:  # no tensors, or whatever else: ONNX Runtime says it in its words
        return None


def note_altered_options(options_class: Any) -> dict[str, Callable[..., Any]]:
    """Return methods to take the place of those of `SessionOptions` that replace initializers."""

    def noting(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            altered_options.add(self)
            return method(self, *args, **kwargs)

        return call

    names = [name for name in dir(options_class) if name.startswith(("add_initializer", "add_external_init"))]
    return {name: noting(getattr(options_class, name)) for name in names}
