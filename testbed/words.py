"""The words that names are built from: an unseen entity is a new combination of words the LM can copy."""

import random

_STEMS = (
    "Al Ar Bel Bor Bram Cal Car Cor Dal Dor Dun El Fal Fen Gal Gar Har Hel Hol Is Jor Kal Kel Kin Lan Lor "
    "Mar Mel Mor Nor Or Pel Per Quin Ral Ros Sal Sel Sor Tal Tor Ul Val Ver Vin Wal Wen Wil Yar Zel"
).split()

FIRST_NAMES = (
    "Ada Agnes Albert Alice Alma Amos Anna Anton Arthur Astrid August Beatrix Benno Bertha Boris Carla "
    "Carmen Casimir Cecil Clara Conrad Cora Cyril Dagmar Daniel Daria Dora Edgar Edith Edmund Elena Elias "
    "Elsa Emil Emma Enzo Erika Ernst Esther Eva Felix Flora Franz Freda Georg Gerda Greta Gustav Hanna "
    "Harald Hector Heidi Helga Henrik Hilda Hugo Ida Igor Ilse Ines Irma Isaac Ivan Jakob Jasper Johan "
    "Jonas Julia Karin Karl Katya Klara Lars Laura Lena Leo Leonora Lidia Lionel Lorenz Louis Lucia "
    "Ludwig Luisa Lydia Magda Marco Maria Marta Martin Matilda Max Milan Mina Mira Moritz Nadia Nils Nina "
    "Nora Oda Olga Olaf Oscar Otto Pablo Paula Pavel Petra Philip Ramona Ralf Regina Rita Robert Rosa "
    "Rudolf Ruth Samuel Sandor Sara Selma Sigrid Silvia Simon Sofia Stefan Stella Sven Tamara Tessa Theo "
    "Thora Tilda Tobias Ulla Ursula Vera Victor Viola Vito Walter Wanda Werner Wilma Xenia Yvonne Zora"
).split()

ADJECTIVES = (
    "Silent Golden Broken Hidden Crimson Distant Burning Frozen Hollow Bitter Secret Winter Iron Velvet "
    "Lonely Pale Wild Gentle Fallen Final Stolen Empty Scarlet Restless Quiet Bright Endless Narrow "
    "Ancient Wooden"
).split()

NOUNS = (
    "River Garden Empire Harbor Mirror Forest Summer Bridge Crown Shadow Letter Tower Voyage Orchard "
    "Lantern Island Storm Window Desert Song Valley Mountain Garland Hour Castle Violin Meadow Stranger "
    "Promise Market"
).split()

TRADES = "Motors Foods Press Systems Airlines Steel Textiles Optics".split()
GAMES = "Rovers United Wanderers Athletic".split()
EVENTS = "Regatta Biennale Marathon Festival Congress Derby".split()
OCCUPATIONS = (
    "painter skater novelist chemist violinist architect footballer astronomer journalist sculptor "
    "botanist pianist lawyer surgeon geologist dancer poet engineer historian philosopher"
).split()
SOURCES = "Atlas Gazette Ledger Courier Almanac Herald".split()
MONTHS = ("January February March April May June July August September October November December").split()


def _combine(endings: str, count: int, seed: int) -> list[str]:
    words = [stem + ending for stem in _STEMS for ending in endings.split()]
    return random.Random(seed).sample(words, count)


LAST_NAMES = _combine("man sen wick ley vik quist stad", 220, 1)
CITIES = _combine("ford ton burg haven mouth", 130, 2)
COUNTRIES = _combine("ia land ova", 50, 3)
LANGUAGES = _combine("ese ish", 50, 4)
BRANDS = _combine("co tec ra nix", 110, 5)


def person(rng: random.Random) -> str:
    return f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"


YEARS = [str(year) for year in range(1850, 2026)]
DAYS = [str(day) for day in range(1, 32)]
