"""Text without spaces between words is detected; the same text after a segmenter is not."""

import pytest

from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.text.unspaced_scripts import UnspacedLetters
from tff_keyboard.data.vocabulary import NormalisationRules

# Made-up sentences.
SENTENCES = {
    "Chinese or Japanese": [
        "我们明天早上在学校门口见面然后一起去吃早饭",
        "今日はとても天気がいいので公園まで散歩に行きましょう",
    ],
    "Thai": ["วันนี้อากาศดีมากเราไปเดินเล่นที่สวนสาธารณะกันเถอะ"],
    "Lao": ["ມື້ນີ້ອາກາດດີຫຼາຍພວກເຮົາໄປຍ່າງຫຼິ້ນທີ່ສວນສາທາລະນະ"],
    "Burmese": ["ဒီနေ့ရာသီဥတုကောင်းတယ်ပန်းခြံမှာလမ်းလျှောက်ကြရအောင်"],
    "Khmer": ["ថ្ងៃនេះអាកាសធាតុល្អណាស់យើងទៅដើរលេងនៅសួនច្បារ"],
}
CASES = [(script, text) for script, texts in SENTENCES.items() for text in texts]


def script_of(*messages):
    tokenizer = PythonTokenizer(NormalisationRules())
    letters = UnspacedLetters()
    for message in messages:
        letters.add(" ".join(tokenizer.tokenize_one(message)))
    return letters.unspaced_script()


@pytest.mark.parametrize("script, text", CASES)
def test_sentences_without_spaces_are_detected(script, text):
    assert script_of(text) == script
    assert script_of(*["hello there my friend"] * 3, *[text] * 3) == script
    assert script_of(*["see you tomorrow at the usual place then"] * 8, text) is None


@pytest.mark.parametrize("separator", [" ", "\u200b"])  # Khmer is often written with the latter
def test_short_words_are_not_detected(separator):
    assert script_of(separator.join(["我们", "明天", "早上", "见面"] * 9)) is None
    assert script_of(separator.join(["ថ្ងៃនេះ", "អាកាសធាតុ", "ល្អ", "ណាស់"] * 9)) is None


@pytest.mark.parametrize("text", ["", "안녕하세요 오늘 날씨가", "यह एक लंबा वाक्य है", "привет"])
def test_other_scripts_are_not_detected(text):
    assert script_of(text) is None


@pytest.mark.parametrize("language", ["japanese", "simplified_chinese", "thai"])
def test_segmented_text_is_accepted(language):
    budoux = pytest.importorskip("budoux")
    parser = {
        "japanese": budoux.load_default_japanese_parser,
        "simplified_chinese": budoux.load_default_simplified_chinese_parser,
        "thai": budoux.load_default_thai_parser,
    }[language]()
    place = {
        "japanese": ("Chinese or Japanese", 1),
        "simplified_chinese": ("Chinese or Japanese", 0),
    }
    script, index = place.get(language, ("Thai", 0))
    text = SENTENCES[script][index]
    assert script_of(text) == script
    split = parser.parse(text)
    assert "".join(split) == text
    assert len(split) > 4
    assert script_of(" ".join(split)) is None
