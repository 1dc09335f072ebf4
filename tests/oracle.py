"""The biLM a second time, in plain NumPy and float64, one token after another. Knows nothing of stelmo.

Written from the description of the published models, not from our code, so that a mistake would have to be made
twice. `options` is a published options.json; `arrays` are the datasets of its weights.hdf5 by their full names.
A state is (h, c) of one row: h (2, L, P), c (2, L, D); directions, layers.
"""

import json

import h5py
import numpy as np

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, NO_CHARACTER = 256, 257, 258, 259, 260  # before the shift by 1
FORGET_BIAS = 1.0


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def clip(x, limit):
    return x if limit is None else np.minimum(np.maximum(x, -limit), limit)


# Words


def raw_ids(token, width):
    """The ids of a token as training numbers them: bytes 0 … 255, then the five markers."""
    if token == "<S>":
        middle = [BEGIN_SENTENCE]
    elif token == "</S>":
        middle = [END_SENTENCE]
    else:
        middle = list(token.encode("utf-8", "ignore"))[: width - 2]
    ids = [BEGIN_WORD, *middle, END_WORD]
    while len(ids) < width:
        ids.append(NO_CHARACTER)
    return ids


def convolved(options, arrays, token):
    """The strongest window of each filter, then the activation."""
    cnn = options["char_cnn"]
    x = np.array([arrays["char_embed"][number] for number in raw_ids(token, cnn["max_characters_per_token"])], float)
    strongest = []
    for number, (width, count) in enumerate(cnn["filters"]):
        kernel = np.asarray(arrays[f"CNN/W_cnn_{number}"], float)[0].reshape(-1, count)
        windows = [x[p : p + width].reshape(-1) @ kernel for p in range(len(x) - width + 1)]
        strongest.append(np.max(windows, axis=0) + arrays[f"CNN/b_cnn_{number}"])
    joined = np.concatenate(strongest)
    return np.tanh(joined) if cnn["activation"] == "tanh" else np.maximum(joined, 0.0)


def highway(x, w_carry, b_carry, w_transform, b_transform):
    gate = sigmoid(x @ w_carry + b_carry)
    transformed = np.maximum(x @ w_transform + b_transform, 0.0)
    return gate * transformed + (1.0 - gate) * x


def word_vector(options, arrays, token, vocabulary=None):
    """Layer 0 of one token, (P,)."""
    if "char_cnn" not in options:
        known = token if token in vocabulary else "<UNK>"
        return np.asarray(arrays["embedding"][vocabulary.index(known)], float)
    x = convolved(options, arrays, token)
    for number in range(options["char_cnn"].get("n_highway") or 0):
        names = ("W_carry", "b_carry", "W_transform", "b_transform")
        x = highway(x, *(np.asarray(arrays[f"CNN_high_{number}/{name}"], float) for name in names))
    if len(x) == options["lstm"]["projection_dim"]:
        return x
    return x @ np.asarray(arrays["CNN_proj/W_proj"], float) + arrays["CNN_proj/b_proj"]


# Sentences


def lstm_step(x, h, c, kernel, bias, projection=None, cell_clip=None, proj_clip=None):
    """One token of one row → the new h and c."""
    i, j, f, o = np.split(np.concatenate([x, h]) @ kernel + bias, 4)
    c = clip(sigmoid(f + FORGET_BIAS) * c + sigmoid(i) * np.tanh(j), cell_clip)
    m = sigmoid(o) * np.tanh(c)
    return (m, c) if projection is None else (clip(m @ projection, proj_clip), c)


def lstm(xs, h, c, kernel, bias, projection=None, cell_clip=None, proj_clip=None):
    """All tokens of one row → the outputs, and the state after the last."""
    outputs = []
    for x in xs:
        h, c = lstm_step(x, h, c, kernel, bias, projection, cell_clip, proj_clip)
        outputs.append(h)
    return np.array(outputs), h, c


def stack(options, arrays, direction, xs, h, c):
    """All layers of one direction, in reading order → their outputs, and the state (L, ·) after the last token."""
    lstm_options, outputs, end_h, end_c = options["lstm"], [], [], []
    for layer in range(lstm_options["n_layers"]):
        cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        kernel, bias = (np.asarray(arrays[f"{cell}/{name}"], float) for name in ("W_0", "B"))
        projection = None
        if lstm_options["dim"] != lstm_options["projection_dim"]:
            projection = np.asarray(arrays[f"{cell}/W_P_0"], float)
        clips = lstm_options.get("cell_clip"), lstm_options.get("proj_clip")
        ys, last_h, last_c = lstm(xs, h[layer], c[layer], kernel, bias, projection, *clips)
        if lstm_options.get("use_skip_connections") and layer >= 1:
            ys = ys + xs
        outputs.append(ys)
        end_h.append(last_h)
        end_c.append(last_c)
        xs = ys
    return outputs, np.array(end_h), np.array(end_c)


def zero_state(options):
    lstm_options = options["lstm"]
    shape = (2, lstm_options["n_layers"])
    return np.zeros((*shape, lstm_options["projection_dim"])), np.zeros((*shape, lstm_options["dim"]))


def run(options, arrays, tokens, start=None, vocabulary=None):
    """One sentence → its layers (L+1, n+2, 2P), <S> and </S> included, and the state at its end."""
    h, c = zero_state(options) if start is None else start
    xs = np.array([word_vector(options, arrays, token, vocabulary) for token in ("<S>", *tokens, "</S>")])
    ahead, ahead_h, ahead_c = stack(options, arrays, 0, xs, h[0], c[0])
    behind, behind_h, behind_c = stack(options, arrays, 1, xs[::-1], h[1], c[1])
    layers = [np.concatenate([xs, xs], axis=1)]
    for left, right in zip(ahead, behind, strict=True):
        layers.append(np.concatenate([left, right[::-1]], axis=1))
    return np.array(layers), (np.array([ahead_h, behind_h]), np.array([ahead_c, behind_c]))


def layers(options, arrays, tokens, start=None, vocabulary=None):
    """One sentence → the layers of its own tokens, (L+1, n, 2P)."""
    return run(options, arrays, tokens, start, vocabulary)[0][:, 1:-1]


def carry(options, arrays, batches, vocabulary=None):
    """Batches of sentences, row r of each going on where row r of an earlier one ended → the layers of every
    sentence, batch by batch, and the state of every row ever seen."""
    rows, results = [], []
    for batch in batches:
        results.append([])
        for row, tokens in enumerate(batch):
            if row == len(rows):
                rows.append(zero_state(options))
            found, rows[row] = run(options, arrays, tokens, rows[row], vocabulary)
            results[-1].append(found[:, 1:-1])
    return results, rows


# The mix


def mix(layers_of_one, logits, gamma):
    shares = np.exp(logits) / np.exp(logits).sum()
    total = np.zeros(layers_of_one[0].shape)
    for share, layer in zip(shares, layers_of_one, strict=True):
        total = total + share * layer
    return gamma * total


def _normalised(batch, counted, epsilon):
    """Each layer of a batch by the mean and variance of all numbers that count."""
    result = [np.zeros_like(sentence) for sentence in batch]
    for layer in range(len(batch[0])):
        numbers = np.concatenate([sentence[layer].reshape(-1) for sentence in counted])
        for sentence, normal in zip(batch, result, strict=True):
            normal[layer] = (sentence[layer] - numbers.mean()) / np.sqrt(numbers.var() + epsilon)
    return result


def layer_norm_bilm(batch):
    """Sentences (L+1, n+2, 2P) with their markers, which do not count."""
    return _normalised(batch, [sentence[:, 1:-1] for sentence in batch], 1e-12)


def layer_norm_allennlp(batch):
    """Sentences (L+1, n+2, 2P) with their markers, which count."""
    return _normalised(batch, batch, 1e-13)


# Models out of thin air


def options(
    cells=6,
    projection=4,
    layers=2,
    cell_clip=0.6,
    proj_clip=0.35,
    skip=True,
    embedding=3,
    filters=((1, 3), (2, 4), (3, 2)),
    highways=1,
    activation="relu",
    characters=50,
):
    """A tiny architecture as options.json writes it. A clip of None leaves its key out; filters of None: word ids."""
    lstm_options = {"dim": cells, "projection_dim": projection, "n_layers": layers, "use_skip_connections": skip}
    clips = {"cell_clip": cell_clip, "proj_clip": proj_clip}
    made = {"lstm": lstm_options | {name: limit for name, limit in clips.items() if limit is not None}}
    if filters is None:
        return made
    return made | {
        "char_cnn": {
            "embedding": {"dim": embedding},
            "filters": [list(pair) for pair in filters],
            "n_highway": highways,
            "n_characters": 262,
            "max_characters_per_token": characters,
            "activation": activation,
        }
    }


def shapes(options, words=0):
    """The datasets that belong to the options, and their shapes."""
    lstm_options = options["lstm"]
    cells, projection = lstm_options["dim"], lstm_options["projection_dim"]
    found = {"embedding": (words, projection)} if "char_cnn" not in options else _char_shapes(options, projection)
    for direction in range(2):
        for layer in range(lstm_options["n_layers"]):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            found[f"{cell}/W_0"] = (2 * projection, 4 * cells)
            found[f"{cell}/B"] = (4 * cells,)
            if cells != projection:
                found[f"{cell}/W_P_0"] = (cells, projection)
    return found


def _char_shapes(options, projection):
    cnn = options["char_cnn"]
    embedding, total = cnn["embedding"]["dim"], sum(count for _, count in cnn["filters"])
    found = {"char_embed": (261, embedding)}
    for number, (width, count) in enumerate(cnn["filters"]):
        found[f"CNN/W_cnn_{number}"] = (1, width, embedding, count)
        found[f"CNN/b_cnn_{number}"] = (count,)
    for number in range(cnn["n_highway"]):
        for gate in ("carry", "transform"):
            found[f"CNN_high_{number}/W_{gate}"] = (total, total)
            found[f"CNN_high_{number}/b_{gate}"] = (total,)
    if total != projection:
        found["CNN_proj/W_proj"] = (total, projection)
        found["CNN_proj/b_proj"] = (projection,)
    return found


def random_weights(options, seed=0, scale=1.5, words=0):
    """Every dataset random, biases too; sums stay near `scale` whatever the width, so that no gate saturates and
    the clips of `options` bite now and then."""
    random = np.random.default_rng(seed)
    return {
        name: random.normal(0.0, scale / np.sqrt(1 if _is_table(name) else max(1, np.prod(shape[:-1]))), shape)
        for name, shape in shapes(options, words).items()
    }


def _is_table(name):
    return name in ("char_embed", "embedding")


def write(folder, options, arrays, vocabulary=None):
    """options.json, weights.hdf5 and vocab.txt as the published models have them, but in the arrays' own precision."""
    (folder / "options.json").write_text(json.dumps(options))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    if vocabulary is not None:
        (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in vocabulary), encoding="utf-8")


def read(path):
    """All datasets of a published weights file by their full names."""
    found = {}
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, item: found.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None)
    return found
