"""Every loader on every real file: how many questions, how many problems, and the first question as it must be."""

import pytest

from keqa.data import BENCHMARKS, Example, as_examples, load
from keqa.data.quiz_references import check, parse
from keqa.metrics.answers import exact_match

# Benchmark and path below ../shared/data, split, questions, problems, left out, and the first question.
FILES = [
    (
        "hotpotqa:hotpotqa/hotpot_dev_distractor_v1.json",
        None,
        275,
        0,
        {},
        Example(
            "5adf86355542993344016cbd",
            "Which rugby league team which Rory Kostjasyn played for is based in Melbourne, Victoria?",
            ("Melbourne Storm",),
            "short",
        ),
    ),
    (
        "hotpotqa-fullwiki:hotpotqa/hotpot_dev_fullwiki_v1.json",
        None,
        95,
        0,
        {},
        Example(
            "5ac370ce5542995ef918c18c",
            "Are Southwest Florida International Airport and Henry E. Rohlsen Airport both in Florida?",
            ("no",),
            "yes/no",
        ),
    ),
    (
        "hotpotqa:hotpotqa",
        "train",
        100,
        0,
        {},
        Example("5a77ec115542992a6e59dff7", "If Gallu is a demon Lilu is what?", ("a spirit",), "short"),
    ),
    (
        "2wikimultihopqa:2wikimultihopqa/dev.json",
        None,
        110,
        0,
        {},
        Example(
            "b0acdb5b08f411ebbdaaac1f6bf848b6",
            "Who died later, Eric Khoo Heng-Pheng or Jeon Myeong-Un?",
            ("Eric Khoo Heng-Pheng",),
            "short",
        ),
    ),
    (
        "2wikimultihopqa:2wikimultihopqa/dev_nocontext.json",
        None,
        390,
        0,
        {},
        Example(
            "3d46f1be0bb011ebab90acde48001122",
            "Who is the paternal grandfather of Henry Iv, Prince Of Anhalt-Bernburg?",
            ("Bernhard II, Prince of Anhalt-Bernburg",),
            "short",
        ),
    ),
    (
        "2wikimultihopqa:2wikimultihopqa/train.json",
        None,
        300,
        0,
        {},
        Example(
            "796f47fe0bb011ebab90acde48001122",
            "Who is the paternal grandfather of King Kang Of Zhou?",
            ("King Wu of Zhou",),
            "short",
        ),
    ),
    (
        "musique:musique/musique_ans_v1.0_dev.jsonl",
        None,
        226,
        0,
        {},
        Example(
            "2hop__135652_669373",
            "Who is the employer of the physicist who Mach number is named after?",
            ("Charles University",),
            "short",
            (),
            ("What is Mach number named after?", "#1 >> employer"),
            ("Ernst Mach", "Charles University"),
        ),
    ),
    (
        "musique:musique/musique_ans_v1.0_train.jsonl",
        None,
        100,
        0,
        {},
        Example(
            "2hop__150763_14904",
            "Who was the first president of the association which published Journal of Psychotherapy Integration?",
            ("G. Stanley Hall", "Stanley Hall"),
            "short",
            (),
            ("What company published Journal of Psychotherapy Integration?", "Who was the first president of #1 ?"),
            ("American Psychological Association", "G. Stanley Hall"),
        ),
    ),
    (
        "strategyqa:strategyqa/strategyqa_train.json",
        None,
        500,
        0,
        {},
        Example(
            "bb12b05bbe4a76f6039f",
            "Did Elle Fanning play an essential part in ending apartheid?",
            ("no",),
            "yes/no",
            (),
            (
                "When was Actress Elle Fanning born?",
                "Through which period did the Apartheid last?",
                "Is #1 before or within #2?",
            ),
            (),
        ),
    ),
    (
        "nq:nq/NQ-open.dev.jsonl",
        None,
        500,
        0,
        {},
        Example(
            "q-7d291f2a088e8030",
            "how many countries participated for the first time in the 2014 olympic winter games in sochi",
            ("Brazil", "Uzbekistan", "Turkey"),
            "short",
        ),
    ),
    (
        "nq:nq/NQ-open.efficientqa.dev.1.1.jsonl",
        None,
        500,
        0,
        {},
        Example(
            "q-f13b05cbc4b52d70",
            "what type of lens does a camera contain",
            ("a compound lens", "an optical lens"),
            "short",
        ),
    ),
    (
        "nq:nq/nq-open-oracle.jsonl",
        None,
        500,
        0,
        {},
        Example("q-55d1d98722595016", "who got the first nobel prize in physics", ("Wilhelm Conrad Röntgen",), "short"),
    ),
    (
        "triviaqa:triviaqa/test.jsonl",
        None,
        500,
        0,
        {},
        Example(
            "test_9467",
            "How many American states were there at the beginning of the twentieth century?",
            ("45", "forty-five"),
            "short",
        ),
    ),
    (
        "webquestions:webquestions/test.json",
        None,
        500,
        0,
        {},
        Example(
            "wqs001051", "when did the san francisco earthquake occur?", ("1906 San Francisco earthquake",), "short"
        ),
    ),
    (
        "webquestions:webquestions/trainmodel.json",
        None,
        500,
        0,
        {},
        Example("wqr000607", "what does albania speak?", ("Albanian language",), "short"),
    ),
    (
        "xquad-en:squad/xquad.en.json",
        None,
        500,
        0,
        {},
        Example("56beb4343aeaaa14008c925b", "How many points did the Panthers defense surrender?", ("308",), "short"),
    ),
    (
        "xquad-zh:squad/xquad.zh.json",
        None,
        500,
        0,
        {},
        Example("56beb4343aeaaa14008c925b", "黑豹队的防守丢了多少分？", ("308",), "short"),
    ),
    (
        "freshqa:freshqa/freshqa.csv",
        None,
        339,
        0,
        {},
        Example(
            "418",
            "Which broadcast network is this year's Super Bowl broadcaster?",
            ("Fox", "NFL on Fox", "Fox NFL"),
            "short",
        ),
    ),
    (
        "freshqa:freshqa/freshqa.csv",
        "test",
        339,
        0,
        {},
        Example(
            "418",
            "Which broadcast network is this year's Super Bowl broadcaster?",
            ("Fox", "NFL on Fox", "Fox NFL"),
            "short",
        ),
    ),
    (
        "freshqa:freshqa",
        "dev",
        61,
        0,
        {},
        Example(
            "549",
            "How many cyclists have won both of women's cycling Grand Tours in the same season?",
            ("one", "one (Annemiek van Vleuten)"),
            "short",
        ),
    ),
    (
        "openbookqa:openbookqa/Main/test.jsonl",
        None,
        300,
        0,
        {},
        Example(
            "44",
            "What type of characteristics are people not born with?",
            ("skills",),
            "choice",
            ("genetics", "skills", "physical attributes", "height"),
        ),
    ),
    (
        "openbookqa:openbookqa/Main/train.jsonl",
        None,
        300,
        0,
        {},
        Example(
            "11-229",
            "Two iron bars that are similarly charged will likely",
            ("shove each other",),
            "choice",
            ("pull each other", "touch each other", "shove each other", "grab each other"),
        ),
    ),
    (
        "openbookqa:openbookqa/Additional/test_complete.jsonl",
        None,
        300,
        0,
        {},
        Example(
            "1129",
            "There is most likely going to be fog around:",
            ("a marsh",),
            "choice",
            ("a marsh", "a tundra", "the plains", "a desert"),
        ),
    ),
    (
        "mmlu:mmlu",
        "test",
        513,
        0,
        {},
        Example(
            "abstract_algebra/q-08bae37429fa6198",
            "Statement 1 | If a R is an integral domain, then R[x] is an integral domain. Statement 2 | If R is a ring "
            "and f(x) and g(x) are in R[x], then deg (f(x)g(x)) = deg f(x) + deg g(x).",
            ("True, False",),
            "choice",
            ("True, True", "False, False", "True, False", "False, True"),
        ),
    ),
    (
        "mmlu:mmlu",
        "dev",
        284,
        1,
        {},
        Example(
            "abstract_algebra/q-a29319c027b708ea",
            "Find all c in Z_3 such that Z_3[x]/(x^2 + c) is a field.",
            ("1",),
            "choice",
            ("0", "1", "2", "3"),
        ),
    ),
    (
        "cmmlu:cmmlu",
        "test",
        536,
        0,
        {},
        Example(
            "agronomy/108",
            "以下哪个不是农业对国民经济的作用",
            ("输送高科技人才",),
            "choice",
            ("争取外汇", "积累生产要素", "提供食品和工业原料", "输送高科技人才"),
        ),
    ),
    (
        "cmmlu:cmmlu",
        "dev",
        335,
        0,
        {},
        Example("agronomy/0", "肉牛屠宰后，胴体的哪个部位肉质较好", ("大腿",), "choice", ("胸", "腹", "大腿", "小腿")),
    ),
    (
        "webqa:webqa_zh/me_test.ann.json",
        None,
        499,
        1,
        {},
        Example("Q_ANN_TST_000065", "武则天的第一个老公是谁？", ("唐太宗",), "short"),
    ),
    (
        "sogouqa:sogouqa_zh/SogouQA.json",
        None,
        21,
        1,
        {},
        Example("10000", "《窃读记》的作者的作品", ("林海音", "林含英"), "short"),
    ),
    (
        "sogouqa:sogouqa_zh/WebQA.json",
        None,
        11,
        1,
        {},
        Example("Q_IR_VAL_000000", "能把太阳的七种颜色全部吸收的物体是", ("黑色",), "short"),
    ),
    (
        "chinesesquad:chinesesquad/dev-v2.0-zh.json",
        None,
        198,
        0,
        {"unanswerable": 302},
        Example("56dddf4066d3e219004dad60", "谁统治诺曼底公国", ("理查德一世",), "short"),
    ),
    (
        "cmrc2018:cmrc2018/cmrc2018_dev.json",
        None,
        300,
        0,
        {},
        Example("DEV_2_QUERY_0", "广茂铁路全长多少公里？", ("364.6公里",), "short"),
    ),
    (
        "chinese-simpleqa:chinese_simpleqa/chinese_simpleqa.jsonl",
        None,
        500,
        0,
        {},
        Example(
            "ae4e5f5dc349409587e016cae0d52b81",
            "Miles Morales首次登场是漫画书《Ultimate Fallout》的哪一期？",
            ("4",),
            "short",
        ),
    ),
    (
        "rgb-en:rgb/en_fact.json",
        None,
        70,
        0,
        {},
        Example(
            "40",
            "When does the iPhone 11 release?",
            (
                "September 20 2019",
                "Sep 20, 2019",
                "Sep. 20, 2019",
                "September 20, 2019",
                "20 September 2019",
                "20 Sep, 2019",
                "20 Sep., 2019",
                "20 September, 2019",
            ),
            "short",
        ),
    ),
    ("rgb-zh:rgb/zh_fact.json", None, 70, 0, {}, Example("30", "2018年超级碗冠军是谁", ("费城老鹰",), "short")),
]


@pytest.mark.parametrize(("spec", "split", "questions", "problems", "left_out", "first"), FILES)
def test_a_real_file(shared_data, spec, split, questions, problems, left_out, first):
    loaded = load(shared_data(spec), split=split)
    assert (len(loaded.examples), len(loaded.problems), loaded.left_out) == (questions, problems, left_out)
    found = loaded.examples[0]
    assert Example(found.id, found.question, found.answers, found.answer_type, found.choices) == Example(
        first.id, first.question, first.answers, first.answer_type, first.choices
    )
    assert (found.quizzes, found.quiz_answers) == (first.quizzes, first.quiz_answers)
    assert len(set(loaded.ids)) == questions
    # What is loaded is what everything else takes, and each gold answer is right.
    assert as_examples(loaded.examples) == loaded.examples
    for example in loaded.examples:
        assert all(exact_match(gold, example.answers, example.answer_type, example.choices) for gold in example.answers)
        assert not [problem for problem in check(parse(example.quizzes)) if problem.fatal]


def test_every_benchmark_but_squad_itself_has_a_real_file():
    assert {spec.split(":")[0] for spec, *_ in FILES} == set(BENCHMARKS) - {"squad", "squad2"}
