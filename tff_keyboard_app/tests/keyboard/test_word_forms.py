"""Frequencies of forms that no list has, by hand."""

import pytest

from tff_keyboard_app.keyboard.word_forms import WordForms

VOWELS = "aeıioöuü"
FREQUENCIES = {
    "kitap": 0.02, "kitaplar": 0.01, "sokak": 0.02, "sokaklar": 0.01, "sokaklara": 0.01,
    "duvar": 0.04, "ev": 0.1, "evler": 0.05, "defter": 0.04, "defterler": 0.01, "banka": 0.08,
}  # fmt: skip


@pytest.fixture(scope="module")
def forms():
    return WordForms(FREQUENCIES, VOWELS)


def test_a_form_has_the_frequency_of_its_stem_and_the_share_of_its_ending(forms):
    # Six stems have "a" as the last vowel and do not end in it. Two of them have the form in "lar".
    stems = ["kitap", "kitaplar", "sokak", "sokaklar", "duvar"]
    assert forms.frequency("duvarlar") == pytest.approx(0.04 * 2 / len(stems))
    # "sokaklara" is "sokaklar" with "a", and "sokak" with "lara".
    assert forms.frequency("kitaplara") == pytest.approx(0.02 * 1 / len(stems))


@pytest.mark.parametrize(
    "string",
    [
        "duvarler",  # the vowels do not harmonise
        "bankalar",  # no word that ends in a vowel has "lar" here
        "duvar",  # without an ending
        "evde",  # a stem of two letters
        "dvarlar",
        "",
    ],
)
def test_other_strings_are_no_forms(forms, string):
    assert forms.frequency(string) == 0.0


def test_endings_are_those_of_more_than_one_word(forms):
    assert forms.endings == {"lar"}  # "lara" is one of "sokak" alone
    assert forms.frequency_of("duvar", "lar") == forms.frequency("duvarlar")
    assert forms.frequency_of("duvar", "lara") == pytest.approx(0.04 / 5)
    assert forms.frequency_of("dvar", "lar") == 0.0


def test_an_empty_lexicon_has_no_forms():
    assert WordForms({}, VOWELS).frequency("duvarlar") == 0.0
