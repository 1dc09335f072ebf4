"""Published arrays → a state dictionary of AllenNLP's `Elmo`, with its names and its layout."""

import numpy as np
import torch


def tensor(array, dtype):
    return torch.from_numpy(np.ascontiguousarray(array)).to(dtype)


def state_of(arrays, prefix="", dtype=torch.float64, mixes=0):
    """Published arrays as a state of AllenNLP's `Elmo` has them."""
    root, layers = f"{prefix}_elmo_lstm.", 2
    encoder = {"_char_embedding_weights": np.concatenate([np.zeros((1, 3)), arrays["char_embed"]])}
    for number in range(3):
        encoder[f"char_conv_{number}.weight"] = arrays[f"CNN/W_cnn_{number}"][0].transpose(2, 1, 0)
        encoder[f"char_conv_{number}.bias"] = arrays[f"CNN/b_cnn_{number}"]
    for number in range(2):
        high = {
            name: arrays[f"CNN_high_{number}/{name}"] for name in ("W_carry", "b_carry", "W_transform", "b_transform")
        }
        encoder[f"_highways._layers.{number}.weight"] = np.concatenate([high["W_transform"].T, -high["W_carry"].T])
        encoder[f"_highways._layers.{number}.bias"] = np.concatenate([high["b_transform"], -high["b_carry"]])
    encoder["_projection.weight"], encoder["_projection.bias"] = arrays["CNN_proj/W_proj"].T, arrays["CNN_proj/b_proj"]
    state = {f"{root}_token_embedder.{name}": array for name, array in encoder.items()}
    for direction, layer in np.ndindex(2, layers):
        cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        place = f"{root}_elmo_lstm.{('forward', 'backward')[direction]}_layer_{layer}"
        state |= {f"{place}.{name}": array for name, array in cell_of(arrays, cell).items()}
    for number in range(mixes):
        state[f"{prefix}scalar_mix_{number}.gamma"] = np.array([2.0 + number])
        state |= {f"{prefix}scalar_mix_{number}.scalar_parameters.{at}": np.array([0.5 * at]) for at in range(3)}
    return {name: tensor(array, dtype) for name, array in state.items()}


def cell_of(arrays, cell):
    i, j, f, o = np.split(arrays[f"{cell}/W_0"], 4, axis=1)
    ours, state = np.split(np.concatenate([i, f, j, o], axis=1), 2)
    i, j, f, o = np.split(arrays[f"{cell}/B"], 4)
    return {
        "input_linearity.weight": ours.T,
        "state_linearity.weight": state.T,
        "state_linearity.bias": np.concatenate([i, f + 1.0, j, o]),
        "state_projection.weight": arrays[f"{cell}/W_P_0"].T,
    }
