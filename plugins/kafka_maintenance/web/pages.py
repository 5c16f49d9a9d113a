"""Values → HTML. Every value is escaped by the template engine; no page carries a script."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, StrictUndefined

ROWS_SHOWN_MAX = 500
"""Rows of each list that a page of one plan shows; many plans share them."""
ROWS_SHOWN_MIN = 10
PLANS_OPEN_MAX = 3
"""So many plans are shown unfolded; of more, the head lines are what a person looks for first."""

_ENVIRONMENT = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_FRAME = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
  :root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 22%, transparent); }
  body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem; max-width: 75rem; }
  h1 { font-size: 1.4rem; margin: 0 0 .25rem; } summary h1 { display: inline; } h2 { font-size: 1.1rem; margin: 1.75rem 0 .5rem; }
  .note { opacity: .75; } .bad { color: #c62828; font-weight: 600; } .good { color: #2e7d32; font-weight: 600; }
  table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
  .scroll { overflow-x: auto; }
  th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
  code, pre { font: 13px/1.45 ui-monospace, monospace; }
  pre { padding: .75rem; border: 1px solid var(--line); border-radius: .4rem; overflow-x: auto; white-space: pre-wrap; }
</style>
</head>
<body>
{% block content %}{% endblock %}
</body>
</html>
"""
_NOTHING = """\
<h1>{{ title }}</h1>
<p class="note" data-testid="note">{{ note }}</p>
"""
_PLAN = """\
{% for plan in plans %}
<details{% if plans | length <= open %} open{% endif %}>
<summary><h1>{{ plan.kind }} on {{ plan.cluster }}</h1>{% if plan.problem %} <span class="bad">!</span>{% endif %}</summary>
<p class="note">Digest <code data-testid="digest">{{ plan.digest }}</code><br><code>{{ plan.uri }}</code></p>
{% if plan.problem %}
<p class="bad" data-testid="problem">{{ plan.problem }}</p>
{% endif %}
{% if plan.gate %}
<p data-testid="gate">A person answers it under <strong>Required Actions</strong> of this run: <code>{{ plan.gate }}</code></p>
{% endif %}
{% for title, lines in plan.sections %}
<h2>{{ title }} ({{ lines | length }})</h2>
<ul>
{% for line in lines[:limit] %}
<li>{{ line }}</li>
{% endfor %}
{% if lines | length > limit %}
<li class="note">… and {{ lines | length - limit }} more</li>
{% endif %}
</ul>
{% endfor %}
{% for step in plan.steps[:limit] %}
<h2>Step {{ loop.index }} of {{ plan.steps | length }}</h2>
<div class="scroll"><table>
<thead><tr><th></th><th>What</th><th>With</th></tr></thead>
<tbody>
{% for role, name, values in step[:limit] %}
<tr><td>{{ role }}</td><td>{{ name }}</td><td><code>{{ values }}</code></td></tr>
{% endfor %}
{% if step | length > limit %}
<tr><td></td><td class="note">… and {{ step | length - limit }} more</td><td></td></tr>
{% endif %}
</tbody></table></div>
{% endfor %}
{% if plan.steps | length > limit %}
<p class="note">… and {{ plan.steps | length - limit }} more steps</p>
{% endif %}
{% for name, text in plan.receipts %}
<h2>Receipt {{ name }}</h2>
<pre data-testid="receipt">{{ text }}</pre>
{% endfor %}
</details>
{% endfor %}
"""
_CLUSTERS = """\
<h1>Clusters</h1>
<p class="note">Store <code>{{ store }}</code></p>
<div class="scroll"><table data-testid="clusters">
<thead><tr><th>Cluster</th><th>ZooKeeper</th><th>Kafka</th><th>Newest snapshot</th><th>Consistent</th><th>Topics</th>
<th>Partitions</th><th>Brokers</th><th>Dates stored</th><th>Remark</th></tr></thead>
<tbody>
{% for cluster in clusters %}
<tr><td>{{ cluster.name }}{% if cluster.archived %} <span class="note">(archived)</span>{% endif %}</td>
<td><code>{{ cluster.zookeeper }}</code></td><td>{{ cluster.kafka }}</td><td>{{ cluster.newest }}</td>
<td>{% if cluster.consistent is none %}-{% elif cluster.consistent %}<span class="good">yes</span>{% else %}<span class="bad">no</span>{% endif %}</td>
<td>{{ cluster.topics }}</td><td>{{ cluster.partitions }}</td><td>{{ cluster.brokers }}</td><td>{{ cluster.days }}</td>
<td>{% if cluster.problem %}<span class="bad">{{ cluster.problem }}</span>{% endif %}</td></tr>
{% endfor %}
</tbody></table></div>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPage:
    """A stored plan as its page shows it.

    `sections` are (title, lines); a step has (role, name, values as text) rows; `receipts` are (name, text).
    `problem` says why the plan will be refused as it lies there; `gate` is the path of the page
    that asks for the answer (text, not a link: Airflow shows this page in a frame that cannot leave itself).
    """

    kind: str
    cluster: str
    digest: str
    uri: str
    sections: Sequence[tuple[str, Sequence[str]]] = ()
    steps: Sequence[Sequence[tuple[str, str, str]]] = ()
    receipts: Sequence[tuple[str, str]] = ()
    problem: str | None = None
    gate: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRow:
    """One cluster of the overview; numbers are text, "-" where there is no snapshot."""

    name: str
    zookeeper: str
    kafka: str = "-"
    archived: bool = False
    newest: str = "-"
    consistent: bool | None = None
    topics: str = "-"
    partitions: str = "-"
    brokers: str = "-"
    days: int = 0
    problem: str | None = None


def note_page(title: str, note: str) -> str:
    """A page that says why there is nothing to show."""
    return _render(_NOTHING, {"title": title, "note": note})


def plan_page(plans: Sequence[PlanPage]) -> str:
    """The plans of a run, one below the other; of many, folded and each with fewer of its rows."""
    limit = max(ROWS_SHOWN_MAX // max(len(plans), 1), ROWS_SHOWN_MIN)
    return _render(_PLAN, {"title": "Plan", "plans": plans, "limit": limit, "open": PLANS_OPEN_MAX})


def text_page(title: str, text: str) -> str:
    """A text as it is, for a report that has no page of its own."""
    return _render('<h1>{{ title }}</h1><pre data-testid="text">{{ text }}</pre>', {"title": title, "text": text})


def clusters_page(store: str, clusters: Sequence[ClusterRow]) -> str:
    """All clusters that the Variable lists, with their newest snapshot."""
    return _render(_CLUSTERS, {"title": "Clusters", "store": store, "clusters": clusters})


def _render(body: str, values: Mapping[str, Any]) -> str:
    page = _FRAME.replace("{% block content %}{% endblock %}", body)
    return _ENVIRONMENT.from_string(page).render(values)
