"""What does this motion conserve? The energy of a double pendulum from noisy angles and rates, without a model."""

import numpy as np

import kapitza as kz

pendulum = kz.library.planar_double_pendulum()
clean = kz.simulate(pendulum, t=np.arange(0, 250, 0.25))
record = kz.measure(clean, relative_noise=0.005, seed=1)

search = kz.find_invariant(record)  # 53 products of rates with cosines and sines of the angles
print(search)
for found in search.found:
    print(found.table())
