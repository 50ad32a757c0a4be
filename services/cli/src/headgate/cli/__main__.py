"""The `headgate` command."""

import typer

from headgate.cli.dev.command import demo, dev

app = typer.Typer(no_args_is_help=True, add_completion=False)
app.command("dev")(dev)
app.command("demo")(demo)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
