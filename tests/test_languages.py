"""Every language: one segmenter, the corpus' language, search, drafts, abstentions, numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ragbench as rb
from ragbench import language as detection
from ragbench.errors import ConfigError, DataWarning
from ragbench.evaluation.configurations import configurations
from ragbench.evaluation.result import Result
from ragbench.generation.extractive import extract_answers
from ragbench.language import (
    WORD,
    detect_language,
    find_language,
    language_of,
    n_words,
    terms,
    words,
)
from ragbench.llms.reply_text import read_outcome
from ragbench.metrics import score_answers
from ragbench.metrics.answer_similarity import keyword_coverage, stated_facts
from ragbench.metrics.groundedness.checks import check_groundedness
from ragbench.metrics.groundedness.numbers import numbers, numeric_support
from ragbench.metrics.safety.leakage import copied_runs, leakage_findings
from ragbench.retrieval import BM25, make_retriever
from ragbench.testsets.known_items import draft_known_items
from ragbench.text import count_tokens, sentence_spans, token_offsets
from ragbench.types import Answer, Case, Chunk, Dataset, Passage

XQUAD = Path(__file__).parents[2] / "shared/data/xquad"
TEXTS = {
    "de": "Die Brücke wurde im Jahr 1889 eröffnet und ist seit dem Krieg nicht mehr offen.",
    "es": "El puente se abrió en el año 1889 y desde la guerra no está abierto al público.",
    "fr": "Le pont a été ouvert en 1889 et il est fermé au public depuis la guerre.",
    "it": "Il ponte è stato aperto nel 1889 e dalla guerra non è più aperto al pubblico.",
    "pt": "A ponte foi aberta em 1889 e desde a guerra não está mais aberta ao público.",
    "nl": "De brug werd in het jaar 1889 geopend en is sinds de oorlog niet meer open.",
    "pl": "Most został otwarty w 1889 roku i od wojny nie jest już dostępny dla ludzi.",
    "ru": "Мост был открыт в 1889 году и после войны он не работает для публики.",
    "tr": "Köprü 1889 yılında açıldı ve savaştan sonra bir daha halk için açık olarak kalmadı.",
    "vi": "Cây cầu được khánh thành vào năm 1889 và không còn mở cửa cho công chúng.",
    "zh": "这座桥于1889年开放，战后不再对公众开放。",
    "ja": "この橋は1889年に開通しましたが、戦後は公開されていません。",
    "ko": "이 다리는 1889년에 개통되었으며 전쟁 이후 일반에 공개되지 않았다.",
    "ar": "افتتح الجسر في عام 1889 ولم يعد مفتوحا أمام الجمهور بعد الحرب.",
    "hi": "यह पुल 1889 में खुला था और युद्ध के बाद से जनता के लिए बंद है।",
    "th": "สะพานนี้เปิดในปี 1889 และไม่เปิดให้ประชาชนเข้าชมหลังสงคราม",
    "el": "Η γέφυρα άνοιξε το 1889 και από τον πόλεμο δεν είναι ανοιχτή για το κοινό.",
    "ro": "Podul a fost deschis în anul 1889 și de la război nu este deschis pentru public.",
    "en": "The bridge was opened in 1889 and is not open to the public since the war.",
}


@pytest.mark.parametrize("code", TEXTS)
def test_a_language_is_detected_by_its_own_words(code: str) -> None:
    assert detect_language([TEXTS[code]]).code == code


def test_texts_in_no_known_language_are_not_stemmed() -> None:
    unknown = " ".join(f"qx{chr(97 + i % 26)}{chr(97 + i // 26)}z" for i in range(80))
    assert detect_language([unknown]).code == "none"
    assert detect_language(["for x in range(n): total += x"]).code == "en"
    with pytest.raises(ConfigError, match="'german'"):
        find_language("german")


@pytest.mark.parametrize(
    "text", ["See step 7 below.", "Per user and day", "The programmer’s note: see above."]
)
def test_a_single_word_of_another_language_does_not_make_a_short_text_foreign(text: str) -> None:
    assert detect_language([text], find_language("en")).code == "en"


def test_a_corpus_of_one_language_is_known_from_a_few_of_its_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    detect = detection._detect_in_one

    def counted(text: str) -> Any:
        asked.append(text)
        return detect(text)

    monkeypatch.setattr(detection, "_detect_in_one", counted)
    english = [f"The bridge number {i} was opened by the city in the spring." for i in range(400)]
    german = [
        f"Die Brücke Nummer {i} wurde im Frühling von der Stadt eröffnet." for i in range(400)
    ]

    def chunks_of(texts: list[str]) -> list[Chunk]:
        return [Chunk(f"d{i}#0", f"d{i}", 0, len(text), text) for i, text in enumerate(texts)]

    assert language_of(chunks_of(english)).code == "en"
    assert len(asked) == 50
    asked.clear()
    mixed = [pair[i % 10 == 0] for i, pair in enumerate(zip(german, english, strict=True))]
    assert language_of(chunks_of(mixed)).code == "de"
    assert set(asked) == set(mixed)  # one in ten is in another language: all of the sample decide


def test_a_corpus_is_in_the_language_of_most_of_its_texts() -> None:
    """English has more function words than Polish, whose text is the longer one here."""
    assert detect_language([TEXTS["pl"], TEXTS["en"], TEXTS["pl"]]).code == "pl"
    assert detect_language(["1.500 Besucher"], find_language("de")).code == "de"
    assert detect_language(["カタカナ"]).code == "ja"


def test_letters_keep_their_marks_and_unspaced_scripts_are_bigrams() -> None:
    assert words("हिन्दी में") == ["हिन्दी", "में"]
    assert words("東京都") == ["東", "京", "都"]
    assert terms("在Paris住了3年") == ["在", "paris", "住了", "年"]
    assert terms("ที่นี่") == ["ที่นี่"]
    assert terms("ｶﾞﾗｽ") == terms("ガラス")
    assert words("İSTANBUL ١٢") == ["istanbul", "12"]
    assert n_words("東京都庁") == 2
    assert terms("Straßen\u00adbahn क्\u200dया") == ["strassenbahn", "क्या"]


@pytest.mark.parametrize(
    ("texts", "query"),
    [
        (["Die Häuser sind sehr alt.", "Der Baum ist nicht groß."], "Wie alt ist das Haus?"),
        (["北京是中国的首都。", "巴黎是法国的首都。"], "中国的首都在哪里？"),
        (["부산의 다리는 길다.", "서울의 탑은 높다."], "다리가 얼마나 긴가?"),
    ],
)
def test_bm25_finds_inflected_and_unspaced_words(texts: list[str], query: str) -> None:
    chunks = [Chunk(f"d{i}#0", f"d{i}", 0, len(text), text) for i, text in enumerate(texts)]
    assert next(iter(BM25(chunks).search({"q": query})["q"])) == "d0#0"


def test_an_english_embedder_warns_of_another_language() -> None:
    chunks = [Chunk("d#0", "d", 0, len(TEXTS["de"]), TEXTS["de"])]
    for name in ("dense:wordllama", "hybrid:wordllama"):
        with pytest.warns(DataWarning, match="German"):
            make_retriever(name, chunks)
    with pytest.warns(DataWarning, match=r"German: it cuts them at random places"):
        rb.chunk({"d": " ".join([TEXTS["de"]] * 9)}, "semantic", chunk_size=32)


def test_the_extractive_baseline_goes_by_words_where_its_embedder_knows_none() -> None:
    """A passage of its own is answered from, another one not: an embedder of English sees no
    difference.
    """
    texts = {
        "de": ("Der Turm wurde im Jahr 1889 gebaut.", "Katzen sind keine Hunde und schlafen viel."),
        "th": ("หอคอยนี้สร้างขึ้นในปี 1889", "แมวไม่ใช่สุนัขและนอนหลับมาก"),
    }
    questions = {"de": "Wann wurde der Turm gebaut?", "th": "หอคอยนี้สร้างขึ้นเมื่อใด"}
    for code, (right, other) in texts.items():
        case = Case("q", questions[code])
        outcomes = []
        for text in (right, other):
            contexts = {"q": [Chunk("d#0", "d", 0, len(text), text)]}
            [answer] = extract_answers([case], contexts, language=code)
            outcomes.append(answer.outcome)
        assert outcomes == ["success", "no_results"], code


def test_what_the_tokenizer_does_not_know_counts_as_a_token_for_every_four_characters() -> None:
    thai = TEXTS["th"].replace(" ", "")
    assert len(thai) / 5 < count_tokens([thai])[0] <= len(thai)
    [offsets] = token_offsets([f"{thai} and"])
    assert offsets[0, 0] == 0
    assert offsets[-1].tolist() == [len(thai) + 1, len(thai) + 4]
    assert (offsets[1:, 0] >= offsets[:-1, 1]).all()
    assert count_tokens(["The bridge is internationally renowned."]) == [6]


def test_a_label_names_a_language_that_only_one_configuration_sets() -> None:
    scores = pd.DataFrame({"query_id": ["q"], "measure": ["RR"], "value": [1.0]})
    results = [
        Result(name, {"parameters": {"retriever": "bm25", **other}}, {}, scores)
        for name, other in (("a", {}), ("b", {"language": "de"}))
    ]
    assert configurations(results)["label"].tolist() == ["bm25", "bm25, language de"]


@pytest.mark.parametrize("code", ["zh", "ja", "hi", "ar", "ko", "de"])
def test_sentences_end_by_the_rules_of_the_language(code: str) -> None:
    text = f"{TEXTS[code]} {TEXTS[code]}" if code in ("hi", "ar", "ko", "de") else 2 * TEXTS[code]
    assert [text[start:end] for start, end in sentence_spans(text)] == 2 * [TEXTS[code]]


@pytest.mark.parametrize(
    "text",
    [
        "Die Dokumente enthalten keine Angaben dazu.",
        "Los documentos no mencionan la fecha.",
        "Le contexte ne précise pas la date.",
        "I documenti non contengono la risposta.",
        "Os documentos não mencionam isso.",
        "De documenten vermelden dit niet.",
        "Dokumenty nie zawierają odpowiedzi.",
        "В документах не указано, когда это было.",
        "文档中没有提到这个问题。",
        "文書には記載されていません。",
        "문서에 언급되어 있지 않습니다.",
        "لا تذكر المستندات تاريخ الافتتاح.",
        "दस्तावेज़ों में इसका उल्लेख नहीं है।",
        "Belgelerde bu bilgi yer almıyor.",
        "Tài liệu không đề cập đến điều này.",
        "Es tut mir leid, aber der Kontext enthält dazu keine Angaben.",
        "Dazu liegen mir leider keine Informationen vor.",
        "Disculpe, pero esa información no está en los documentos.",
        "Je ne dispose pas d'informations suffisantes pour répondre à cette question.",
        "죄송하지만 문서에서 답을 찾을 수 없습니다.",
        "Metinde kuleyi kimin yaptığından bahsedilmiyor.",
        "عذرًا، لم أجد الإجابة في المستندات.",
    ],
)
def test_abstentions_are_recognised(text: str) -> None:
    assert read_outcome(text) == "no_results"


@pytest.mark.parametrize("code", TEXTS)
def test_a_denial_is_an_answer(code: str) -> None:
    assert read_outcome(TEXTS[code]) == "success"


@pytest.mark.parametrize(
    "text",
    [
        "Das Dokument nennt den Tag nicht, aber es war 1881.",
        "Das Dokument nennt 1881 als Baujahr, nicht 1890.",
        "文書には日付は記載されていませんが、1881年でした。",
        "문서에는 날짜가 언급되어 있지 않지만 1881년이었습니다.",
        "文档中没有提到" + "这座桥" * 60 + "。",
    ],
)
def test_what_continues_contrasts_or_is_long_is_an_answer(text: str) -> None:
    assert read_outcome(text) == "success"


def test_numbers_have_the_notation_of_their_language() -> None:
    german = (
        "Der Turm ist 1.234,5 Meter hoch und wurde von 1.500 Menschen und 3,141 Tieren besucht."
    )
    assert [number.bare for number in numbers(german)] == [1234.5, 1500, 3.141]
    assert [number.value for number in numbers("在1889年有٣٥٠人。")] == [1889, 350]
    assert [number.value for number in numbers("It has 1,500 rooms and 3.141 doors.")] == [
        1500,
        3.141,
    ]
    dutch = "De brug is ten noorden van de stad en werd in 1889 geopend."
    assert [number.value for number in numbers(dutch)] == [1889]


@pytest.mark.parametrize(
    ("answer", "context"),
    [
        ("Das Budget beträgt 12 Mio. Euro.", "Das Budget liegt bei 12.000.000 Euro."),
        ("Das Budget beträgt 10 Millionen Euro.", "Das Budget ist 10 Mio. Euro."),
        ("La ville compte 1,5 million d'habitants.", "La ville compte 1 500 000 habitants."),
        ("La ciudad tiene 2 millones de habitantes.", "La ciudad tiene 2.000.000 de personas."),
        ("Население составляет 3,5 млн человек.", "В городе живёт 3500000 человек."),
        ("Bu şehrin nüfusu 20 bin kişi.", "Bu şehrin nüfusu ise 20.000 kişi olarak bilinir."),
        ("人口は3万人です。", "人口は30000人です。"),
        ("인구는 5만 명입니다.", "인구는 50000명이다."),
        ("जनसंख्या 5 लाख है।", "जनसंख्या 500000 है।"),
        ("عدد السكان 3 ملايين نسمة.", "عدد السكان 3000000 نسمة."),
        ("Es kostet 1'250'000 Franken.", "Der Preis ist 1250000 Franken."),
        ("Es kostet 1’250 Franken.", "Der Preis ist 1250 Franken."),
    ],
)
def test_scales_and_separators_of_other_languages(answer: str, context: str) -> None:
    assert numeric_support(answer, [context]) == 1
    assert numeric_support(answer, [context.replace("0", "7")]) == 0


def test_scales_of_other_languages_are_no_words_of_english() -> None:
    assert [number.value for number in numbers("There are 2 bin bags and 5 mil of rain.")] == [2, 5]


def test_a_short_answer_has_the_notation_of_its_contexts() -> None:
    contexts = ["Der Turm ist sehr alt und wurde von 1500 Menschen besucht, das sind 3,5 Prozent."]
    assert numeric_support("1.500 Besucher, 3,5 %", contexts) == 1
    assert numeric_support("1.501 Besucher", contexts) == 0


def test_facts_read_decimal_commas() -> None:
    german = "Der Turm ist 1.234,5 Meter hoch und wiegt 3,5 Tonnen."
    facts = [["1234,5"], ["3,5"], ["3"]]
    assert stated_facts(german, facts) == [True, True, False]


def test_secrets_and_copies_are_found_in_texts_without_spaces() -> None:
    leaks = leakage_findings("内部代号红龙泄露", marked=["红龙"], extra_optional=True)
    assert [(leak.start, leak.end) for leak in leaks] == [(4, 6)]
    assert not leakage_findings("RedDragons", marked=["red"], extra_optional=True)
    context = [chr(0x4E00 + i) for i in range(100)]
    assert copied_runs("".join(context[:59]), ["".join(context)]) == []
    assert len(copied_runs("".join(context[:60]), ["".join(context)])) == 1


CHINESE = "这座铁塔于一八八九年建成，高三百三十米，每年有将近七百万名游客登上塔顶，欣赏巴黎的全景，并在那里拍照留念。"
JAPANESE = (
    "この塔は一八八九年に完成し、高さは三百三十メートルで、毎年およそ七百万人が訪れています。"
)
THAI = "หอคอยแห่งนี้สร้างเสร็จเมื่อปีพุทธศักราชสองพันสี่ร้อยสามสิบสองและมีผู้มาเยือนมากมาย"


@pytest.mark.parametrize("context", [CHINESE, JAPANESE, THAI], ids=["zh", "ja", "th"])
def test_a_context_in_a_script_without_spaces_that_is_copied_nearly_whole_is_found(
    context: str,
) -> None:
    assert 12 <= n_words(context) < 30
    [(start, _, n_copied)] = copied_runs(f"({context})", [context])
    assert (start, n_copied) == (1, round(n_words(context)))
    leaks = leakage_findings(context, [context], extra_optional=True)
    assert ("verbatim", f"[{n_copied} words]") in [(leak.kind, leak.masked) for leak in leaks]
    letter_ends = [match.end() for match in WORD.finditer(context)]
    nearly_whole = context[: letter_ends[round(0.93 * len(letter_ends))]]
    assert len(copied_runs(nearly_whole, [context])) == 1
    four_fifths = context[: letter_ends[round(0.8 * len(letter_ends))]]
    assert copied_runs(four_fifths, [context]) == []


@pytest.mark.parametrize(("letter", "letters"), [("\u4e00", 24), ("\u0e01", 36)])
def test_twelve_words_of_a_script_without_spaces_are_the_least_that_is_copied(
    letter: str, letters: int
) -> None:
    first = ord(letter)
    text = "".join(chr(first + i) for i in range(letters))
    assert [run[2] for run in copied_runs(text, [text])] == [12]
    assert copied_runs(text[:-1], [text[:-1]]) == []
    assert copied_runs(text[:-1], [text]) == []


def test_a_copied_context_with_spaces_counts_from_twelve_words_and_nine_tenths() -> None:
    words = [f"w{i}" for i in range(20)]
    for n_context, n_shortest in ((12, 12), (13, 12), (14, 12), (20, 18)):
        context = " ".join(words[:n_context])
        copied = " ".join(words[:n_shortest])
        assert copied_runs(copied, [context]) == [(0, len(copied), n_shortest)]
        assert copied_runs(" ".join(words[: n_shortest - 1]), [context]) == []


def test_keywords_are_matched_in_every_script() -> None:
    assert keyword_coverage("東京タワーは1958年に完成。", ["東京", "1958"]) == 1
    assert keyword_coverage("यह हिन्दी है", ["हिन्दी", "हिन"]) == 0.5


def test_what_reads_english_is_unscored_elsewhere() -> None:
    case = Case("q", TEXTS["de"], reference_answer=TEXTS["de"])
    answer = Answer("q", TEXTS["de"], passages=(Passage("p", TEXTS["de"]),))
    data = Dataset("mine", "test", {}, [case], {})
    scores, claims = check_groundedness(data, [answer])
    values = scores.set_index("measure")["value"]
    assert values["claim_support"] != values["claim_support"]
    assert values["numeric_support"] == 1
    assert claims.empty
    similar = score_answers(data, [answer]).set_index("measure")["value"]
    assert similar["semantic_similarity"] != similar["semantic_similarity"]
    assert similar["token_f1"] == 1


@pytest.mark.parametrize(("code", "minimum"), [("de", 0.93), ("ar", 0.92), ("th", 0.93)])
def test_bm25_in_memory_and_on_disk_on_xquad(code: str, minimum: float) -> None:
    if not (XQUAD / code).is_dir():
        pytest.skip("XQuAD is not here")
    data = rb.load_dataset(str(XQUAD / code))
    chunks = rb.chunk(data, "document")
    means = []
    for name in ("bm25", "bm25@disk"):
        run = rb.retrieve(make_retriever(name, chunks), data.queries, chunks)
        scores = rb.score_run(data.qrels, rb.to_documents(run, chunks), ["nDCG@10"])
        means.append(scores["value"].mean())
    assert means[0] > minimum
    assert abs(means[0] - means[1]) < 0.005


@pytest.mark.parametrize("code", ["de", "ar", "th"])
def test_bm25_is_not_better_than_its_own_copy(code: str) -> None:
    if not (XQUAD / code).is_dir():
        pytest.skip("XQuAD is not here")
    data = rb.load_dataset(str(XQUAD / code))
    chunks = rb.chunk(data, "document")
    scores = []
    for language in ("", code):
        index = make_retriever("bm25", chunks, language=language)
        run = rb.retrieve(index, data.queries, chunks)
        scores.append(rb.score_run(data.qrels, rb.to_documents(run, chunks), ["nDCG@10"]))
    [row] = rb.compare(*scores).to_dict("records")
    assert (row["difference"], row["wins"], row["losses"], row["p_value"]) == (0, 0, 0, 1)


@pytest.mark.parametrize("code", ["de", "ar", "th"])
def test_most_sections_have_a_draft(code: str) -> None:
    if not (XQUAD / code).is_dir():
        pytest.skip("XQuAD is not here")
    corpus = dict(list(rb.load_dataset(str(XQUAD / code)).corpus.items())[:40])
    drafted = draft_known_items(Dataset("x", "test", corpus, [], {}), 40)
    assert len({case.evidence[0].doc_id for case in drafted.cases}) >= 30


def test_a_digit_that_python_does_not_know_is_a_word() -> None:
    """Kawi has digits since Unicode 15; the tables of Python 3.11 end at 14."""
    assert words("\u0663 \U00011f50")[0] == "3"


STOPPED = {
    "en": [
        "statins breast cancer recurrence risk patients cohort",
        "dietary fat intake breast cancer survival Finnish women",
        "vitamin supplements cancer prevention randomized trial results",
        "bridge opened 1889, closed public since war",
        "blood pressure medication lowers stroke mortality elderly",
        "coffee consumption associated liver enzyme levels",
        "annual report board members salary increase",
        "children asthma exposure household cleaning products",
    ],
    "de": ["Brücke Jahr 1889 eröffnet, Krieg geschlossen, öffentliche Nutzung verboten"],
    "fr": ["pont ouvert 1889, fermé public depuis guerre, travaux prévus année prochaine"],
    "es": ["puente abierto año 1889, cerrado público desde guerra, obras próximo año"],
    "fi": ["silta avattiin vuonna, suljettu yleisöltä sodan jälkeen"],
}


@pytest.mark.parametrize("code", STOPPED)
def test_a_corpus_without_function_words_is_in_its_language(code: str) -> None:
    chunks = [Chunk(f"d#{i}", "d", 0, 9, text) for i, text in enumerate(STOPPED[code])]
    assert language_of(chunks).code == code


def test_the_questions_decide_between_languages_and_a_small_margin_is_said() -> None:
    texts = 10 * [TEXTS["en"]] + 9 * [TEXTS["de"]]
    chunks = [Chunk(f"d#{i}", "d", 0, 9, text) for i, text in enumerate(texts)]
    with pytest.warns(DataWarning, match=r"en, by a small margin \(texts in en 10, de 9\)"):
        assert language_of(chunks).code == "en"
    assert language_of(chunks, "", 30 * ["Wann wurde die Brücke geöffnet?"]).code == "de"
    assert language_of(chunks, "nl").code == "nl"
    numbers_only = [Chunk("d#0", "d", 0, 9, "1889 | 300 | 4711")]
    assert language_of(numbers_only, "", ["Wann wurde die Brücke geöffnet?"]).code in ("en", "de")


def test_a_language_that_is_not_among_ours_is_not_taken_for_one() -> None:
    swahili = (
        "Daraja lilifunguliwa mwaka wa 1889 na halijafunguliwa kwa umma tangu vita vilipoisha."
    )
    assert detect_language([swahili], find_language("en")).code == "en"  # the default, not a guess


def test_without_room_for_its_model_no_language_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from py3langid.langid import LanguageIdentifier

    from ragbench import language

    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(27, "File too large")

    monkeypatch.setattr(LanguageIdentifier, "from_model_file", refuse)
    monkeypatch.setattr(language, "_detector", language._detector.__wrapped__)
    with pytest.warns(DataWarning, match="no temporary file can be written"):
        assert language._detect_in_one.__wrapped__("Der Hund und die Katze schlafen.") is None
