"""Three parameters of a chaotic system from one noisy channel, far starting values, and how far the fit predicts."""

import numpy as np

import kapitza as kz

truth = kz.library.lorenz()
clean = kz.simulate(truth, x0=[-8.0, -8.0, 27.0], t=np.arange(3000) * 0.01)
record = kz.measure(clean.select(["x"]), noise=0.2, seed=1)

guess = truth.with_values(sigma=17.0, rho=12.0, beta=4.5)
fit = kz.identify(guess, record, free=["sigma", "rho", "beta"], method=kz.ShootingFit(hold_back=0.1))
print(fit)

prediction = fit.motion.prediction
print(f"predicts {prediction.horizon:.1f} time units beyond the fitted samples")

bound = kz.cramer_rao(truth, clean, {"x": 0.2}, ["sigma", "rho", "beta"])
print("smallest possible standard errors from all samples:", np.sqrt(np.diag(bound)).round(4))
