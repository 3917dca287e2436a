"""Filters such as `year >= 2020 and label in (owl, "barn owl")`, as SQL with parameters.

    condition  := and_part ("or" and_part)*
    and_part   := part ("and" part)*
    part       := "not" part | "(" condition ")" | column operator value | column ["not"] "in" "(" value, ... ")"
    operator   := = | == | != | <> | < | <= | > | >=
    value      := a number, a word, or a text in quotes

A column whose name is no single word is written in backquotes or quotes. The text is parsed here and never
evaluated: only known columns and parameters reach the database.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lookalike.errors import ArgumentError, UnknownNameError
from lookalike.utils.validation import look_up

Kind = Literal["number", "text"]
Value = str | int | float

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<operator><=|>=|!=|<>|==|=|<|>|\(|\)|,)
      | "(?P<double>(?:[^"\\]|\\.)*)"
      | '(?P<single>(?:[^'\\]|\\.)*)'
      | `(?P<name>[^`]+)`
      | (?P<word>[^\s()<>=!,"'`]+)
    )""",
    re.VERBOSE,
)
_COMPARE = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_WORDS = ("and", "or", "not", "in")
_DEEPEST = 50
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_MOST = 2**63


@dataclass(frozen=True)
class Column:
    """A column that filters may name: its SQL expression and whether it holds numbers or text."""

    sql: str
    kind: Kind


@dataclass(frozen=True)
class Where:
    """A parsed filter: an SQL condition with `?` for each of `parameters`."""

    sql: str
    parameters: tuple[Value, ...]


@dataclass(frozen=True)
class _Token:
    text: str
    quoted: bool
    at: int

    def says(self, text: str) -> bool:
        return not self.quoted and self.text.casefold() == text


def parse_number(text: str) -> int | float | None:
    """The number that a text is, whole ones without loss as far as SQLite's 64 bits go; None for other texts."""
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    if not (number.is_integer() and abs(number) < _MOST):
        return number
    return int(text) if text.lstrip("+-").isdecimal() else int(number)


def written(name: str) -> str:
    """A column's name as a filter writes it."""
    match = _TOKEN.fullmatch(name)
    if match is not None and match["word"] == name and name.casefold() not in _WORDS:
        return name
    return f"`{name}`" if "`" not in name else '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'


def parse_where(text: str, columns: Mapping[str, Column]) -> Where:
    """The filter `text` over these columns.

    Raises:
        ArgumentError: it cannot be parsed, or compares a column of numbers with a word.
        UnknownNameError: no such column.
    """
    return _Parser(text, columns).parse()


class _Parser:
    def __init__(self, text: str, columns: Mapping[str, Column]) -> None:
        self._text = text
        self._columns = columns
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0
        self._parameters: list[Value] = []

    def parse(self) -> Where:
        sql = self._condition()
        if self._at < len(self._tokens):
            raise self._refusal("expected 'and', 'or' or the end")
        return Where(sql, tuple(self._parameters))

    def _condition(self) -> str:
        parts = [self._and_part()]
        while self._take("or"):
            parts.append(self._and_part())
        return f"({' OR '.join(parts)})"

    def _and_part(self) -> str:
        parts = [self._part()]
        while self._take("and"):
            parts.append(self._part())
        return f"({' AND '.join(parts)})"

    def _part(self) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._refusal(f"more than {_DEEPEST} conditions within each other")
        try:
            if self._take("not"):
                return f"(NOT {self._part()})"
            if self._take("("):
                inner = self._condition()
                self._expect(")")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> str:
        name = self._operand("expected a column")
        column = self._column(name)
        negated = self._take("not")
        if self._take("in"):
            return self._membership(column, name.text, negated)
        operator = self._next("expected =, !=, <, <=, >, >= or in")
        if negated or operator.quoted or operator.text not in _COMPARE:
            self._at -= 1
            raise self._refusal("expected in" if negated else "expected =, !=, <, <=, >, >= or in")
        self._parameters.append(self._value(column, name.text))
        return f"({column.sql} {_COMPARE[operator.text]} ?)"

    def _column(self, name: _Token) -> Column:
        try:
            return look_up(self._columns, name.text, "column")
        except UnknownNameError as error:
            longer = [one for one in self._columns if one.startswith(name.text) and written(one) != one]
            if name.quoted or not longer:
                raise
            raise ArgumentError(
                f"filter \"{self._text}\": there is no column '{name.text}'; write the name of a column with blanks "
                f"as {', '.join(map(written, longer))}"
            ) from error

    def _membership(self, column: Column, name: str, negated: bool) -> str:
        self._expect("(")
        count = 0
        while True:
            self._parameters.append(self._value(column, name))
            count += 1
            if not self._take(","):
                break
        self._expect(")")
        return f"({column.sql} {'NOT IN' if negated else 'IN'} ({', '.join('?' * count)}))"

    def _value(self, column: Column, name: str) -> Value:
        token = self._operand("expected a value")
        if column.kind == "text":
            return token.text
        number = parse_number(token.text)
        if number is None:
            raise ArgumentError(f"column '{name}' holds numbers; '{token.text}' is none")
        return number

    def _next(self, expected: str) -> _Token:
        if self._at == len(self._tokens):
            raise self._refusal(expected)
        self._at += 1
        return self._tokens[self._at - 1]

    def _operand(self, expected: str) -> _Token:
        """The next token, which is no operator."""
        token = self._next(expected)
        if not token.quoted and token.text in {*_COMPARE, "(", ")", ","}:
            self._at -= 1
            raise self._refusal(expected)
        return token

    def _take(self, text: str) -> bool:
        """Whether the next token is this word or operator, which then is read."""
        found = self._at < len(self._tokens) and self._tokens[self._at].says(text)
        self._at += found
        return found

    def _expect(self, operator: str) -> None:
        if not self._take(operator):
            raise self._refusal(f"expected '{operator}'")

    def _refusal(self, expected: str) -> ArgumentError:
        if self._at < len(self._tokens):
            token = self._tokens[self._at]
            where = f"at '{token.text}' (character {token.at + 1})"
        else:
            where = "at the end"
        return ArgumentError(
            f'filter "{self._text}": {expected} {where}; example: year >= 2020 and label in (a, b)'
        )


def _tokens(text: str) -> list[_Token]:
    tokens, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ArgumentError(
                f'filter "{text}": cannot be read from character {at + 1} on (a missing quote?)'
            )
        kind = str(match.lastgroup)
        content = match.group(kind)
        if kind in ("double", "single"):
            content = re.sub(r"\\(.)", r"\1", content)
        tokens.append(_Token(content, kind in ("double", "single", "name"), match.start(kind)))
        at = match.end()
    return tokens
