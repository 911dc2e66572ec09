"""Train whole populations of agents in one compiled program. JAX and optax.

Reading order::

    one agent     config, algorithm (what one is), nn, losses (what they are made of), algorithms/ (begin with bc)
    many agents   run (what a user asks for), sampling (how an agent draws steps), population (the compiled program),
                  prepare (from a dataset and runs to its arrays), plan (which runs share a program)
    a training    schedule (when it logs, checks and can be stopped), train (the loop, and who watches it), checkpoint, folder
                  (what is kept on disk), device (memory, types of numbers), tracking (callbacks for trackers)
"""
