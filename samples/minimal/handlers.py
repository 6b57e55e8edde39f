"""The smallest useful operator: it writes a greeting into the status of each Greeting."""

import opkit


@opkit.reconcile("example.com", "v1", "greetings")
def greet(spec, patch, logger):
    # Called with the object as it is now: after it was made, after its spec changed, after a restart, and once in a
    # while. So it says what should be, not what has to be done; a status that is right already is not sent again.
    patch.status["message"] = f"Hello, {spec.get('name', 'world')}!"
    logger.info("Greeted %s.", spec.get("name", "world"))
