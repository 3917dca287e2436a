"""lookalike show: a run's result."""

from lookalike.cli.common import Json, RunArgument, metric_rows, print_json, print_rows


def show(run: RunArgument, json: Json = False) -> None:
    """Show a run's result and how it was chosen."""
    from lookalike.training.run_dir import RunDir

    folder = RunDir(run)
    experiment, result = folder.experiment(), folder.read_json("result.json")
    if json:
        print_json({"experiment": experiment.model_dump(mode="json"), "result": result})
        return
    columns = {
        "validation start": "start",
        "validation": "validation",
        "test start": "test_start",
        "test": "test",
    }
    print_rows(*metric_rows({title: result[key] for title, key in columns.items()}))
    chosen = result["selected"]
    print(f"{result['loss']}, {result['mode']}, on {result['data']['name']}, seed {result['seed']}")
    print(
        f"chosen by {chosen['by']}: {chosen['what']}, epoch {chosen['epoch']} of {chosen['epochs_trained']}"
    )
    print("seconds: " + ", ".join(f"{phase} {value:.0f}" for phase, value in result["seconds"].items()))
