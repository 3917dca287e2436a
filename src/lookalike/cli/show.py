"""lookalike show: a run's result."""

from lookalike.cli.common import Json, RunArgument, print_json, print_result


def show(run: RunArgument, json: Json = False) -> None:
    """Show a run's result and how it was chosen."""
    from lookalike.training.run_dir import RunDir

    folder = RunDir(run)
    experiment, result = folder.experiment(), folder.read_json("result.json")
    if json:
        print_json({"experiment": experiment.model_dump(mode="json"), "result": result})
        return
    print_result(result)
    print(f"{result['loss']}, {result['mode']}, on {result['data']['name']}, seed {result['seed']}")
    print("seconds: " + ", ".join(f"{phase} {value:.0f}" for phase, value in result["seconds"].items()))
