"""
From declarations to a plan.

    plan       the compiled value: resources, their controllers and finalizers, activities
    compiler   registry -> plan, or every problem at once
    printing   the plan as text and as JSON, for `opkit check`

Pure: no event loop, no API client, no network. Every part is frozen.
"""
