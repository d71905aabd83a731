"""From a DataFrame to shards to a trained model, without TensorFlow.

    pip install tfr-sql pandas pyarrow torch
    python examples/python/train.py [DIRECTORY]
"""

# %% A DataFrame: trips, and what a model may know of them before they begin.
import sys
from pathlib import Path

import pandas as pd
import torch
from torch.utils.data import DataLoader

import tfr_sql as tfr
from tfr_sql.torch import TFRecordDataset

out = Path(sys.argv[1] if len(sys.argv) > 1 else "trips")
trips = pd.read_parquet(Path(__file__).parent.parent / "data" / "trips.parquet")
features = pd.DataFrame(
    {
        "trip_id": trips["trip_id"],
        "distance": trips["distance_km"].astype("float32"),
        "passengers": trips["passengers"].fillna(1).astype("float32"),
        "hour": trips["picked_up_at"].dt.hour.astype("float32"),
        "fare": trips["fare"].astype("float32"),
    }
)

# %% Shards: shuffled, and split by a key, so that a trip stays where it is when others are added.
manifest = tfr.write_tfrecord(
    features,
    out,
    shuffle=7,
    split={"train": 0.8, "val": 0.2},
    split_by=["trip_id"],
    shards={"train": 4, "val": 1},
    mode="overwrite",
)
print(manifest)

# %% A look at them, in SQL.
query = tfr.sql(f"SELECT round(avg(fare), 2) AS fare, count(*) AS trips FROM '{out}/'")
print(pd.DataFrame.from_arrow(query))


# %% Training: batches of tensors, in another order each epoch.
def columns(batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.stack([batch["distance"] / 10, batch["passengers"], batch["hour"] / 24], dim=1)
    return inputs, batch["fare"][:, None] / 10


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
dataset = TFRecordDataset(out, split="train", batch_size=64, shuffle=7)
for epoch in range(10):
    for batch in DataLoader(dataset, batch_size=None):
        inputs, fares = columns(batch)
        loss = torch.nn.functional.mse_loss(model(inputs), fares)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

# %% Validation: trips that the model has not seen.
with torch.no_grad():
    batches = list(DataLoader(TFRecordDataset(out, split="val", batch_size=64), batch_size=None))
    pairs = [columns(batch) for batch in batches]
    inputs, fares = torch.cat([pair[0] for pair in pairs]), torch.cat([pair[1] for pair in pairs])
    error = torch.nn.functional.l1_loss(model(inputs), fares).item() * 10
    guess = (fares - fares.mean()).abs().mean().item() * 10
print(f"mean error of {len(fares)} fares: {error:.2f}, of a constant guess: {guess:.2f}")
