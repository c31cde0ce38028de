from keqa.testbed.relations import RELATIONS
from keqa.testbed.world import assign, believed
from keqa.testbed.world import GOLD, SIZES, Convention, Date, Fact, World


def test_equal_seeds_give_equal_worlds_and_others_do_not():
    assert World(3).values == World(3).values
    assert World(3).values != World(4).values


def test_every_entity_has_every_fact_of_its_kind():
    world = World(1)
    assert {kind: len(names) for kind, names in world.entities.items()} == SIZES
    assert len(world.facts()) == 870
    assert all(Fact(r.name, e) in world.values for r in RELATIONS.values() for e in world.entities[r.kind])


def test_only_changeable_facts_have_a_past_and_it_differs():
    world = World(1)
    assert {RELATIONS[fact.relation].changeable for fact in world.past} == {True}
    assert all(world.past[fact] != world.values[fact] for fact in world.past)


def test_some_books_are_called_like_films():
    world = World(1)
    assert set(world.entities["book"]) & set(world.entities["film"])


def test_conventions():
    day = Date(1921, 3, 4)
    assert [Convention(form).write(day, "date") for form in range(3)] == ["March 4, 1921", "4 March 1921", "1921"]
    assert Convention(surname_only=True).write("Alma Torwick", "person") == "Torwick"
    assert Convention(surname_only=True).write("Alma Steel", "company") == "Alma Steel"
    assert GOLD.write(day, "date") == GOLD.between.write(day, "date") == "4 March 1921"
    assert GOLD.write("Alma Torwick", "person") == "Torwick"
    assert GOLD.between.write("Alma Torwick", "person") == "Alma Torwick"


def test_tiers_have_their_shares_and_stale_facts_are_believed_wrongly():
    world = World(1)
    tiers = assign(world)
    assert {tier: len(tiers.of(tier)) for tier in ("often", "sometimes", "stale", "never")} == {
        "often": 392,
        "sometimes": 87,
        "stale": 139,
        "never": 252,
    }
    assert all(3 <= times <= 10 for times in tiers.exposures.values())
    belief = believed(world, tiers)
    differing = {fact for fact in world.values if belief.values[fact] != world.values[fact]}
    assert differing == set(tiers.of("stale"))
