"""Writes metrics.json: seeded cases and their metrics by scikit-learn and scipy.

usage: python3 metrics.py > metrics.json   (made with scikit-learn 1.2.1)
"""
import json
import numpy as np
from scipy.stats import hypergeom
from sklearn import metrics

K = [1, 3, 10]


def ranking(groups, score, label):
    """Mean over groups of each metric; equal scores have no order."""
    gauc, weight = 0.0, 0
    sums = {k: np.zeros(3) for k in K}
    used = 0
    for g in np.unique(groups):
        s, y = score[groups == g], label[groups == g]
        if 0 < y.sum() < len(y):
            gauc += len(y) * metrics.roc_auc_score(y, s)
            weight += len(y)
        if y.sum() == 0:
            continue
        used += 1
        for k in K:
            above = hits = 0
            chance = 0.0
            for v in np.unique(s)[::-1]:
                tie = y[s == v]
                draw = min(max(k - above, 0), len(tie))
                law = hypergeom(len(tie), int(tie.sum()), draw)
                chance = 1 - (1 - chance) * law.pmf(0)
                hits += law.mean() if draw else 0
                above += len(tie)
            ndcg = metrics.ndcg_score([y], [s], k=k) if len(y) > 1 else float(y[0] > 0)
            sums[k] += [chance, hits / y.sum(), ndcg]
    out = {"gauc": gauc / weight}
    for k in K:
        for name, v in zip(["hit_rate", "recall", "ndcg"], sums[k] / used):
            out[f"{name}@{k}"] = v
    return out


def case(name, rng, n, users, levels, rate):
    groups = rng.integers(0, users, n)
    label = (rng.random(n) < rate).astype(int)
    score = np.clip(0.3 * label + rng.random(n) * 0.7, 0.01, 0.99)
    if levels:
        score = np.clip(np.round(score * levels) / levels, 0.01, 0.99)
    score = score.astype(np.float32)
    target = rng.normal(5, 2, n).astype(np.float32)
    guess = (target + rng.normal(0, 1, n)).astype(np.float32)
    s, t, p = score.astype(float), target.astype(float), guess.astype(float)
    want = {
        "auc": metrics.roc_auc_score(label, s),
        "pr_auc": metrics.average_precision_score(label, s),
        "logloss": metrics.log_loss(label, s),
        "accuracy": metrics.accuracy_score(label, s > 0.5),
        "calibration": s.mean() / label.mean(),
        "rmse": metrics.mean_squared_error(t, p, squared=False),
        "mae": metrics.mean_absolute_error(t, p),
    }
    want.update(ranking(groups, s, label))
    return {
        "name": name, "group": groups.tolist(), "score": [float(str(v)) for v in score], "label": label.tolist(),
        "target": [float(str(v)) for v in target], "guess": [float(str(v)) for v in guess], "want": want,
    }


def main():
    rng = np.random.default_rng(1)
    cases = [
        case("no ties", rng, 300, 20, 0, 0.3),
        case("ties", rng, 400, 25, 16, 0.4),
        case("coarse", rng, 300, 12, 3, 0.5),
        case("rare", rng, 500, 30, 0, 0.05),
        case("small groups", rng, 200, 120, 8, 0.5),
    ]
    lines = [json.dumps(c) for c in cases]
    print("[\n" + ",\n".join(lines) + "\n]")


main()
