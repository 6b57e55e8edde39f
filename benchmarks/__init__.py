"""
Benchmarks: opkit beside kopf, on the same server in the same run.

    python -m benchmarks                 every row, quick sizes
    python -m benchmarks start --full    one row, the goals' sizes

`server` starts and fills an API server, `process` runs one peer as a process of its own and measures it from outside,
`peers` holds the programs that are compared, `rows` what is measured with them, `measures` the arithmetic, `table`
what is printed. Peers take turns A B A B, so that a slow minute of the machine hits all of them. Ratios count; the
absolute numbers only give the scale. Needs Linux, since CPU time and memory are read from /proc.
"""
