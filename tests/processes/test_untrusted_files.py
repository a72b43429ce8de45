"""Files of strangers are tried in a limited process before this one reads them."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from tests.lm.small_decoders import byte_tokenizer

import intact
from intact.errors import FileAccessError, FileFormatError, QuantValueError

TEXT = """<ir_version: 8, opset_import: ["" : 17]> net (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }"""


def tokenizer_json_with(**changes: object) -> str:
    """Return a tokenizer.json with other parts."""
    return json.dumps({**json.loads(byte_tokenizer().to_str()), **changes})


def test_a_tokenizer_that_ends_its_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from intact.lm import tokenizer
    from intact.processes import try_in_worker

    def abort(where: str, function: str, **arguments: object) -> object:
        assert function == "intact.lm.text_probes:try_tokenizer" and arguments["text"] == "{}"
        return try_in_worker(where, "tests.processes.misbehave:abort")

    monkeypatch.setattr(tokenizer, "try_in_worker", abort)
    with intact.untrusted_files(), pytest.raises(FileFormatError, match=r"tokenizer\.json: got a process"):
        tokenizer.Tokenizer("{}", None, [1])


def test_a_sound_tokenizer_and_its_grammars_work() -> None:
    pytest.importorskip("llguidance")
    from intact.lm.token_grammar import TokenGrammar
    from intact.lm.tokenizer import Tokenizer

    with intact.untrusted_files():
        tokenizer = Tokenizer(tokenizer_json_with(), None, [1])
    trusted = Tokenizer(tokenizer_json_with(), None, [1])
    assert tokenizer.is_untrusted and not trusted.is_untrusted
    assert tokenizer.encode("abc") == trusted.encode("abc")
    masks = [TokenGrammar(each, 64, grammar='start: "ab"').token_mask() for each in (tokenizer, trusted)]
    assert np.array_equal(*masks)
    with pytest.raises(QuantValueError, match="grammar"):
        TokenGrammar(tokenizer, 64, grammar="start: [")


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
def test_a_sound_model_compiles_to_the_same_engine(tmp_path) -> None:
    proto = onnx.parser.parse_model(TEXT)
    onnx.save(proto, tmp_path / "model.onnx")
    x = np.float32([[-1, 2, -3, 4]])
    with intact.untrusted_files():
        engines = [intact.compile(source) for source in (tmp_path / "model.onnx", proto.SerializeToString())]
    assert all(np.array_equal(engine(x), np.maximum(x, 0)) for engine in engines)


def test_a_damaged_model_is_refused_by_the_limited_process(tmp_path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"\x08\x0a\x3a\xff")
    with intact.untrusted_files(), pytest.raises(FileFormatError, match=r"model\.onnx"):
        intact.compile(tmp_path / "model.onnx")
    with intact.untrusted_files(), pytest.raises(FileAccessError):
        intact.compile(tmp_path / "missing.onnx")
