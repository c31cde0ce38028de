from keqa.testbed.world import GOLD, Convention, Date, World, assign, believed


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
