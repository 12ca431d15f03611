"""Open an export with numpy: a length, a JSON header, and bytes."""
import json, sys
import numpy as np

raw = np.memmap(sys.argv[1] + "/model.safetensors", np.uint8, "r")
n = int(raw[:8].view("<u8")[0])
header = json.loads(bytes(raw[8:8 + n]))
kinds = {"F32": "<f4", "I32": "<i4", "I64": "<i8"}
tensors = {k: raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]].view(kinds[v["dtype"]]).reshape(v["shape"])
           for k, v in header.items() if k != "__metadata__"}
for name in sorted(tensors):
    t = tensors[name]
    print(name, t.dtype, list(t.shape), float(t.astype(np.float64).sum()))

# And one made by numpy: keys above 2^63, a tensor, nothing else.
keys = np.array([1, 2**64 - 1, 7], np.uint64)
made = {"item.keys": keys.view("<i8"), "item.values": np.arange(6, dtype="<f4").reshape(3, 2), "bias": np.array([0.5, 1.5], "<f4")}
head, at = {}, 0
kinds = {"<f4": "F32", "<i8": "I64"}
for name, t in made.items():
    head[name] = {"dtype": kinds[t.dtype.str], "shape": t.shape, "data_offsets": [at, at + t.nbytes]}
    at += t.nbytes
head = json.dumps(head).encode()
with open(sys.argv[1] + "/numpy.safetensors", "wb") as f:
    f.write(len(head).to_bytes(8, "little") + head + b"".join(t.tobytes() for t in made.values()))
