"""Recall of a folder in eight languages, beside that of each language in an index of its own.

    python benchmarks/languages.py [DATA]

English and Chinese are XQuAD's paragraphs and questions where the shared data are there. The other languages, and these
two without the data, are towns that do not exist: of each a passage on eight topics, asked for by its name and by a
word of the topic in another form than the passage has it. Exit code 1 where the mixed index is more than a point below
a separate one, at five.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import common
from common import DATA, show

from keqa.retrievers import Passage, build_index, open_index

_POINT = 0.01
_TOWNS = 60
_LATIN = "bel dor fen gar hul kem lor mar nis ral sen tor".split()
# For each language what towns are called, what any passage begins with, and what is said and asked of each topic.
_SAID: Mapping[str, tuple[Sequence[str], str, Sequence[str]]] = {
    "en": (
        _LATIN,
        "{town} is a small place in the north and people have lived there for a long time.",
        (
            "The harbours were built by fishermen.|Who was building a harbour in {town}?",
            "Its markets sell apples.|What does the market of {town} sell?",
            "The bridges cross two rivers.|Which river is crossed by a bridge of {town}?",
            "Children are taught in old schools.|Which school teaches a child of {town}?",
            "The mayors are elected in spring.|When does {town} elect a mayor?",
            "Its churches have high towers.|Does a church of {town} have a tower?",
            "Wine grows on sunny hills.|Do wines of {town} grow on a hill?",
            "Trains leave the station hourly.|When does a train leave the stations of {town}?",
        ),
    ),
    "de": (
        _LATIN,
        "{town} ist ein kleiner Ort im Norden und die Menschen wohnen dort schon seit langer Zeit.",
        (
            "Die Häfen wurden von Fischern gebaut.|Wer baute den Hafen von {town}?",
            "Auf den Märkten werden Äpfel verkauft.|Was verkauft der Markt in {town}?",
            "Die Brücken führen über zwei Flüsse.|Über welchen Fluss führt die Brücke in {town}?",
            "Die Kinder lernen in alten Schulen.|In welcher Schule lernt ein Kind in {town}?",
            "Die Bürgermeister werden im Frühling gewählt.|Wann wählt {town} einen Bürgermeister?",
            "Seine Kirchen haben hohe Türme.|Hat die Kirche von {town} einen hohen Turm?",
            "Der Wein wächst auf sonnigen Hügeln.|Auf welchem Hügel wachsen die Weine von {town}?",
            "Die Züge verlassen den Bahnhof stündlich.|Wann verlässt ein Zug die Bahnhöfe von {town}?",
        ),
    ),
    "fr": (
        _LATIN,
        "{town} est un petit lieu dans le nord et les gens y habitent depuis longtemps.",
        (
            "Les ports ont été construits par des pêcheurs.|Qui a fait la construction du port de {town} ?",
            "Ses marchés vendent des pommes.|Que vend le marché de {town} ?",
            "Les ponts traversent deux rivières.|Quelle rivière est traversée par le pont de {town} ?",
            "Les enfants apprennent dans de vieilles écoles.|Dans quelle école apprend un enfant de {town} ?",
            "Les maires sont élus au printemps.|Quand est élu le maire de {town} ?",
            "Ses églises ont de hautes tours.|L'église de {town} a-t-elle une tour haute ?",
            "Le vin pousse sur des collines ensoleillées.|Sur quelle colline poussent les vins de {town} ?",
            "Les trains partent de la gare chaque heure.|Quand part un train des gares de {town} ?",
        ),
    ),
    "es": (
        _LATIN,
        "{town} es un lugar pequeño en el norte y la gente vive allí desde hace mucho tiempo.",
        (
            "Los puertos fueron construidos por pescadores.|¿Quién fue el pescador que construyó el puerto de {town}?",
            "Sus mercados venden manzanas.|¿Qué vende el mercado de {town}?",
            "Los puentes cruzan dos ríos.|¿Qué río cruza el puente de {town}?",
            "Los niños aprenden en viejas escuelas.|¿En qué escuela aprende un niño de {town}?",
            "Los alcaldes son elegidos en primavera.|¿Cuándo es elegido el alcalde de {town}?",
            "Sus iglesias tienen torres altas.|¿Tiene una torre la iglesia de {town}?",
            "El vino crece en colinas soleadas.|¿En qué colina crecen los vinos de {town}?",
            "Los trenes salen de la estación cada hora.|¿Cuándo sale un tren de las estaciones de {town}?",
        ),
    ),
    "ru": (
        ("бел дор фен гар хул кем лор мар нис рал сен тор".split()),
        "{town} — это небольшое место на севере, и люди живут там уже очень давно.",
        (
            "Гавани были построены рыбаками.|Какой рыбак построил гавань в месте {town}?",
            "На рынках продают яблоки.|Что продаёт рынок в месте {town}?",
            "Мосты ведут через две реки.|Через какую реку ведёт мост в месте {town}?",
            "Дети учатся в старых школах.|В какой школе учится ребёнок в месте {town}?",
            "Мэров выбирают весной.|Когда выбирает мэра место {town}?",
            "У церквей высокие башни.|Есть ли у церкви в месте {town} высокая башня?",
            "Вино растёт на солнечных холмах.|На каком холме растут вина в месте {town}?",
            "Поезда уходят с вокзала каждый час.|Когда уходит поезд с вокзалов в месте {town}?",
        ),
    ),
    "zh": (
        ("贝 多 芬 加 胡 肯 洛 马 尼 拉 森 托".split()),
        "{town}是北方的一个小地方，人们在那里住了很久。",
        (
            "港口是渔民修建的。|{town}的港口是谁建的？",
            "市场上卖苹果。|{town}的市场卖什么？",
            "桥梁跨过两条河。|{town}的桥跨过哪条河？",
            "孩子们在老学校上课。|{town}的孩子在哪所学校上课？",
            "市长在春天选举。|{town}什么时候选市长？",
            "教堂有高高的塔楼。|{town}的教堂有塔吗？",
            "葡萄酒产自阳光充足的山坡。|{town}的葡萄酒产自哪里的山坡？",
            "火车每小时从车站开出。|{town}的火车什么时候从车站开？",
        ),
    ),
    "ja": (
        ("ベル ドル フェン ガル フル ケム ロル マル ニス ラル セン トル".split()),
        "{town}は北部にある小さな町で、人々は昔からそこに住んでいます。",
        (
            "港は漁師たちによって建てられました。|{town}の港を建てたのは誰ですか。",
            "市場ではりんごが売られています。|{town}の市場で売っているものは何ですか。",
            "橋は二つの川を渡っています。|{town}の橋が渡る川はどれですか。",
            "こどもたちは古いがっこうで学びます。|{town}のこどもが学ぶがっこうはどこですか。",
            "市長は春に選ばれます。|{town}の市長を選ぶのはいつですか。",
            "きょうかいには高い塔があります。|{town}のきょうかいに塔はありますか。",
            "ワインは日当たりのよい丘で育ちます。|{town}のワインが育つ丘はどこですか。",
            "列車は一時間ごとに駅を出ます。|{town}の駅から列車が出るのはいつですか。",
        ),
    ),
    "ar": (
        ("بيل دور فين غار هول كيم لور مار نيس رال سين تور".split()),
        "{town} مكان صغير في الشمال ويعيش الناس هناك منذ زمن طويل.",
        (
            "بنى الصيادون الموانئ القديمة.|من هو الصياد الذي بنى ميناء {town}؟",
            "تبيع الأسواق التفاح.|ماذا يبيع سوق {town} من تفاح؟",
            "تعبر الجسور نهرين كبيرين.|أي نهر كبير يعبر جسر {town}؟",
            "يتعلم الأطفال في مدارس قديمة.|في أي مدرسة يتعلم طفل في {town}؟",
            "ينتخب السكان العمدة في الربيع.|متى ينتخب عمدة {town}؟",
            "للكنائس أبراج عالية.|هل لكنيسة {town} برج عال؟",
            "ينمو العنب على التلال المشمسة.|على أي تل مشمس ينمو عنب {town}؟",
            "تغادر القطارات المحطة كل ساعة.|متى يغادر القطار محطات {town}؟",
        ),
    ),
}

Questions = list[tuple[str, str]]
"""Each with the id of its passage."""


def invented(language: str) -> tuple[list[Passage], Questions]:
    parts, begin, topics = _SAID[language]
    drawn = random.Random(language)
    names = sorted({"".join(drawn.sample(parts, 2)).capitalize() for _ in range(3 * _TOWNS)})
    passages, questions = [], []
    for town in drawn.sample(names, _TOWNS):
        for number, topic in enumerate(topics):
            said, asked = topic.split("|")
            passages.append(Passage(f"{language}/{town}/{number}", "", f"{begin.format(town=town)} {said}"))
            questions.append((asked.format(town=town), passages[-1].id))
    return passages, questions


def xquad(path: Path, language: str) -> tuple[list[Passage], Questions]:
    passages, questions = [], []
    for document in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in document["paragraphs"]:
            passages.append(Passage(f"{language}/{len(passages)}", "", paragraph["context"]))
            questions += [(asked["question"], passages[-1].id) for asked in paragraph["qas"]]
    return passages, questions


def recall(folder: Path, questions: Questions) -> tuple[float, float]:
    """At one and at five."""
    found = open_index(folder).search_many([question for question, _ in questions], 5)
    places = [[hit.passage.id for hit in hits] for hits in found]
    first, five = (fmean(gold in ids[:k] for ids, (_, gold) in zip(places, questions, strict=True)) for k in (1, 5))
    return first, five


def main(arguments: list[str] | None = None) -> int:
    parser = common.parser(__doc__)
    parser.add_argument("data", nargs="?", type=Path, default=DATA, help="the shared data")
    data = parser.parse_args(arguments).data
    sets = {language: invented(language) for language in _SAID}
    for language in ("en", "zh"):
        if (path := data / "squad" / f"xquad.{language}.json").is_file():
            sets[language] = xquad(path, language)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        every = [passage for passages, _ in sets.values() for passage in passages]
        random.Random(1).shuffle(every)
        manifest = build_index(every, Path(temporary, "mixed"))
        for language, (passages, questions) in sets.items():
            build_index(passages, Path(temporary, language), notice=lambda text: None)
            separate = recall(Path(temporary, language), questions)
            mixed = recall(Path(temporary, "mixed"), questions)
            row = {"language": language, "passages": len(passages), "questions": len(questions)}
            row |= {"separate @1": separate[0], "separate @5": separate[1], "mixed @1": mixed[0], "mixed @5": mixed[1]}
            rows.append(row | {"worse by": max(0.0, separate[1] - mixed[1])})
    show(rows, f"analyzer of the mixed index: {manifest.language}")
    return int(any(row["worse by"] > _POINT for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
