"""One raw sentence → tokens with character offsets. Knows no files, no sentence boundaries, no ids.

A token is a slice of the sentence: nothing is normalised, and only white space (what `str.split` drops) is lost.
All rules are parts of one alternation, tried in order at each position; the last one matches any character, so none is
lost. Every rule takes linear time: what it scans before it fails is bounded, or is never scanned again.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import regex

from stelmo.errors import ConfigError

CONTRACTIONS = ("ptb", "moses")


class Token(NamedTuple):
    """`text == sentence[start:end]`, always."""

    text: str
    start: int
    end: int


def tokenize(text: str, language: str = "en", contractions: str = "ptb") -> list[Token]:
    """Split a sentence at white space, punctuation, clitics and between signs of scripts without spaces.

    `contractions` concerns English: "ptb" gives do n't; "moses" gives don 't, as in the 1 Billion Word text.
    A language without rules of its own gets the general ones.
    """
    return list(scan(text, language, contractions))


def scan(text: str, language: str = "en", contractions: str = "ptb") -> Iterator[Token]:
    """The tokens of `tokenize`, one at a time."""
    if contractions not in CONTRACTIONS:
        raise ConfigError(f"contractions {contractions!r}: expected one of {', '.join(CONTRACTIONS)}")
    pattern = _pattern(primary(language), contractions)
    return (Token(match.group(), *match.span()) for match in pattern.finditer(text))


def primary(language: str) -> str:
    """A language's code without its region, in small letters: "pt-BR" → "pt"."""
    code = language.replace("_", "-").split("-")[0].lower()
    if len(code) > 3:
        raise ConfigError(f"language {language!r}: expected a code of two or three letters, such as en, de, zh")
    return code


# Characters. The ranges written out first are redundant; for most text they avoid the slower lookup of properties.

_SPACE = r"[\s\x1c-\x1f]"  # what str.isspace says: a token holding \x1c would break when read back with str.split
_MARK = r"[[\u0300-\U0010ffff]&&[\p{M}\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}]]"  # stays with its base
_UNSPACED = r"[[\u0e00-\U0010ffff]&&[\p{Han}\p{Hiragana}\p{Katakana}\u30fc\uff70\p{lb=SA}]]"  # SA: Thai, Lao, Khmer …
_LETTER = rf"[A-Za-z0-9_[\p{{L}}\p{{N}}\p{{Pc}}--{_UNSPACED}]]"
_IN_WORD = rf"[A-Za-z0-9_{_LETTER}{_MARK}]"
_ANY = r"[A-Za-z0-9_\p{L}\p{N}\p{M}]"  # of any script
_APOSTROPHE = "['’]"
_STARTS = rf"(?<!{_ANY})"
_ENDS = rf"(?!{_ANY})"
_GAP = rf"{_SPACE}{{1,9}}"
_AT_END = rf"(?={_SPACE}{{0,9}}[\"”»'’)\]]{{0,9}}{_SPACE}{{0,9}}\Z)"

# Words

_PLAIN = rf"{_LETTER}{_IN_WORD}*+(?=,?+(?:{_SPACE}|\Z))"  # nothing to decide; most words end here
_JOINT = (  # holds two parts of a word together; an invisible character (soft hyphen, word joiner) splits nothing
    r"(?<=\p{Nd})[.,:/٫٬](?=\p{Nd})|[-‐‑·]|(?<=\p{Lu})&(?=\p{Lu})"
    r"|(?<=\p{Hebrew})[\"״׳](?=\p{Hebrew})|[\p{Cf}--\u200b]++"
)
# "pre- and post-war", "Haus- und Gartenarbeit": the hyphen stands for a part that is left out.
_SUSPENDED = rf"-(?={_GAP}(?:and|or|to|und|oder|bis|och|eller|og|en){_ENDS})"


def _word(joint: str, part: str = rf"{_LETTER}{_IN_WORD}*+") -> str:
    return rf"{part}(?:(?:{joint}){part})*+(?:{_SUSPENDED})?"


# English clitics

_NOT = rf"[nN]{_APOSTROPHE}[tT]{_ENDS}"
_CLITIC = rf"{_APOSTROPHE}(?i:s|m|d|ll|re|ve){_ENDS}"
_BEFORE_NOT = rf"(?>{_LETTER}{_IN_WORD}*(?<!{_ANY}[nN](?={_APOSTROPHE}[tT]{_ENDS})))"
_PTB_WORD = _word(rf"{_JOINT}|(?!{_CLITIC}){_APOSTROPHE}", _BEFORE_NOT)
_PTB_CLITIC = rf"(?<=[A-Za-z0-9.\p{{L}}\p{{N}}\p{{M}}]|{_SPACE}){_CLITIC}"
_SHORTENED = rf"{_STARTS}{_APOSTROPHE}(?i:em|til|tis|twas|cause|n{_APOSTROPHE}|\d\ds?){_ENDS}"  # 'em, 'n', '90s
_MOSES_CLITIC = rf"(?<={_ANY}){_APOSTROPHE}{_word(_JOINT)}"

# Elision: l' homme, dell' arte; the apostrophe belongs to the first of the two words.

_ELISION_LANGUAGES = frozenset(("fr", "it", "ca", "oc"))
_ELIDED = rf"{_LETTER}{_IN_WORD}*+{_APOSTROPHE}(?={_LETTER})"
_NOT_ELIDED = rf"(?i:aujourd{_APOSTROPHE}hui|prud{_APOSTROPHE}hom\p{{L}}*+|presqu{_APOSTROPHE}[iî]l\p{{L}}*+)"

# Words that keep a dot

_INITIAL = rf"\p{{L}}{_MARK}*+\."
_INITIALS = (
    rf"(?:{_INITIAL}(?:-?{_INITIAL})++(?:\p{{L}}{_ENDS})?|{_INITIAL}\p{{L}}{_ENDS}"  # U.S.  J.-P.  a.k.a
    rf"|\p{{Lu}}{_MARK}*+\.(?={_GAP}[\p{{Lu}}\p{{Lt}}]))(?:-{_IN_WORD}++)?"  # J. Smith, yet "so am I."
)
_NUMBERED = r"(?i:nos?|nr|pp?|figs?|sec|art|vol|ch|eq|op|c|v)\.(?=\s{0,9}\d)"  # "No. 5", yet "No."
_ORDINAL = rf"\d{{1,3}}\.(?={_GAP}\p{{L}})"  # am 3. Oktober
_ORDINAL_LANGUAGES = frozenset(("cs", "da", "de", "fi", "hr", "hu", "nb", "nn", "no", "pl", "sk", "sl"))
_ABBREVIATIONS = {
    "en": "Mr Mrs Ms Messrs Dr Drs Prof Rev Hon Gov Sen Rep Reps Gen Lt Col Sgt Capt Cpl Pvt Adm Cmdr Maj Supt Pres"
    " Sr Jr St Mt Ft Ave Blvd Rd Inc Ltd Corp Co Cos Bros Assn Dept Univ Est Attn vs viz cf al etc ca approx Ph.D"
    " Jan Feb Aug Sept Oct Nov Dec Mon Tue Tues Wed Thu Thur Thurs Fri",
    "de": "Dr Prof Hr Fr Nr Str St bzw usw ca evtl ggf inkl exkl sog vgl Abs Art Bd Hrsg Jh Mio Mrd Tel Abb",
    "fr": "M MM Mme Mlle Me Dr Prof St Ste etc env cf av bd éd vol",
    "es": "Sr Sra Srta Sres Dr Dra Prof Ud Uds Vd etc pág págs núm av",
    "it": "sig sigg dott prof avv ing ecc pag",
    "pt": "Sr Sra Dr Dra Prof etc pág págs núm av",
    "nl": "dhr mevr dr prof drs mr ir bv enz evt resp ca nr blz",
    "ru": "г гг им ул руб млн млрд тыс др проф акад стр рис см",
}
_COMMON_ABBREVIATIONS = "Mr Mrs Dr Prof St Jr etc"

# Addresses, tags and pictures

_ADDRESS = rf"(?:[!-~--[<>\"()]]|{_IN_WORD}|\([^\s()<>\"]{{0,200}}+\))*"
_TAIL = rf"{_ADDRESS}(?<=[\p{{L}}\p{{N}}\p{{M}}/#=&_~$%+)-])"  # a final stop or comma belongs to the sentence
_URL = rf"(?i:(?:https?|ftps?|file)://|mailto:|www\.(?=\p{{L}})){_TAIL}"
_EMAIL = r"[\p{L}\p{N}][\p{L}\p{N}_.+-]{0,63}@[\p{L}\p{N}-]{1,63}+(?:\.[\p{L}\p{N}-]{1,63}+)++"
_DOTTED = (  # example.com/path, report.pdf
    rf"(?:[\p{{L}}\p{{N}}_-]{{1,63}}+\.){{1,8}}(?i:com|org|net|edu|gov|mil|info|biz|io|tv|eu|de|fr|ru|cn|jp|uk"
    rf"|docx?|pdf|xlsx?|pptx?|txt|csv|html?|jpe?g|gif|png|zip|exe|mp3){_ENDS}(?:/{_TAIL})?"
)
_CODE_NAME = rf"\p{{Lu}}(?:\+\+|#){_ENDS}"  # C++, C#
_TAG = rf"{_STARTS}[@#](?=\p{{N}}*+[\p{{L}}_])[{_ANY}{_MARK}]++"  # @name, #topic, yet "# 1"
_EMOTICON = (
    rf"[<>]?[:;=]['’]?[-^]?(?:[\[\]|/\\*]|\)++|\(++)(?!{_ANY}|[/(])"  # :-)  ;)  :'(
    rf"|{_STARTS}[:;=]-?[dDpPoOxX3]{_ENDS}|</?3{_ENDS}"  # :D  <3
    r"|\^[_.-]?\^|-_+-|¯\\_\(ツ\)_/¯"
)
_KEYCAP = r"[0-9#*]\ufe0f?\u20e3"
_EMOJI = (  # flags, and pictures with the tones and pictures joined to them
    r"\p{Regional_Indicator}{2}"
    rf"|\p{{Extended_Pictographic}}{_MARK}*+(?:(?<=\u200d)\p{{Extended_Pictographic}}{_MARK}*+)*+"
)

# What is left

_RUN = r"\.{2,}+|…{2,}+|[.!?]{2,}+|-{2,}+|[–—―]{2,}+|={2,}+|\*{2,}+|~{2,}+|#{2,}+|\+{2,}+|<{2,}+|>{2,}+|``|''|’’|‘‘"
_KANA = rf"(?:[\p{{Katakana}}\u30fc\uff70]{_MARK}*+)++|(?:[\p{{Hiragana}}\u30fc]{_MARK}*+)++"
# A stacked consonant of Khmer or Myanmar is drawn under the one before it.
_SIGN = rf"{_UNSPACED}{_MARK}*+(?:(?<=\p{{InSC=Invisible_Stacker}})\p{{lb=SA}}{_MARK}*+)*+"
_REST = "."


@lru_cache(maxsize=32)
def _pattern(language: str, contractions: str) -> Any:
    """The alternation of a language, compiled: unspaced scripts, what a letter can begin, all else."""
    listed = _ABBREVIATIONS.get(language, _COMMON_ABBREVIATIONS).split()
    abbreviation = rf"{_STARTS}(?:{'|'.join(map(regex.escape, listed))})\.(?!\.|{_AT_END})"
    dotted = [abbreviation, rf"{_STARTS}(?:{_INITIALS})", rf"{_STARTS}{_NUMBERED}"]
    if language in _ORDINAL_LANGUAGES:
        dotted.append(_ORDINAL)
    clitics: list[str] = []
    if language == "en" and contractions == "ptb":
        plain, clitics = [_NOT, _PTB_WORD], [_PTB_CLITIC, _SHORTENED]
    elif language == "en":
        plain, clitics = [_word(_JOINT)], [_MOSES_CLITIC]
    elif language in _ELISION_LANGUAGES:
        plain = [_NOT_ELIDED, _ELIDED, _word(_JOINT)]
    else:
        plain = [_word(rf"{_JOINT}|{_APOSTROPHE}")]
    words = [_PLAIN, _KEYCAP, _URL, _EMAIL, _DOTTED, _CODE_NAME, *dotted, *plain]
    symbols = [_KEYCAP, _TAG, _EMOTICON, _EMOJI, *clitics, _RUN, _REST]
    rules = rf"(?={_UNSPACED})(?:{_KANA}|{_SIGN})|(?={_LETTER})(?:{'|'.join(words)})|{'|'.join(symbols)}"
    return regex.compile(rf"(?!{_SPACE})(?:{rules}){_MARK}*+", regex.V1 | regex.DOTALL)
