"""What is made from the clients' config classes: the types of their keyword arguments, and docs/client-settings.md."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.clients.consumer.consumer_config import ConsumerConfig
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.clients.settings.notation import Setting, settings_of


class KeywordModule(NamedTuple):
    """A module with a TypedDict of settings: whose they are, what it imports, and the config class that it mirrors."""

    config_class: type[ClientConfig]
    clients: str
    imports: str
    base: str = "ClientSettings"


CLIENT = KeywordModule(
    ClientConfig,
    "both clients",
    "from collections.abc import Callable, Sequence\nfrom typing import TypedDict\n\n"
    "from barnabas.config.secret import Secret\n",
    base="TypedDict",
)
PRODUCER = KeywordModule(
    ProducerConfig,
    "`Producer`",
    "from collections.abc import Sequence\nfrom typing import Literal\n\n"
    "from barnabas.clients.producer.partition_choice import Partitioner\n"
    "from barnabas.clients.producer.producer_record import ProducerInterceptor\n"
    "from barnabas.clients.producer.serializers import Serializer\n"
    "from barnabas.clients.settings.client_settings import ClientSettings\n",
)
CONSUMER = KeywordModule(
    ConsumerConfig,
    "`Consumer`",
    "from collections.abc import Sequence\n\n"
    "from barnabas.clients.consumer.assignors.partition_assignor import PartitionAssignor\n"
    "from barnabas.clients.consumer.consumer_config import ConsumerInterceptor\n"
    "from barnabas.clients.consumer.deserializers import Deserializer\n"
    "from barnabas.clients.settings.client_settings import ClientSettings\n",
)


def keyword_module(module: KeywordModule) -> str:
    """The source of the module that types the keyword arguments of a client. Python has no way to compute it."""
    name = module.config_class.__name__
    inherited = [] if module is CLIENT else [each.name for each in settings_of(ClientConfig)]
    settings = [each for each in settings_of(module.config_class) if each.name not in inherited]
    lines = [
        f'"""The keyword arguments of {module.clients}, made from {name} by `make docs`: change that one."""',
        "",
        "from __future__ import annotations",
        "",
        module.imports,
        "",
        f"class {name.removesuffix('Config')}Settings({module.base}, total=False):",
        f'    """The keyword arguments of {module.clients}; {name} has their meaning and defaults."""',
        "",
        *(f"    {each.name}: {each.type}" for each in settings),
    ]
    return "\n".join(lines) + "\n"


_TABLE_HEAD = ("| name | type | default | range | importance | what it does |", "|---|---|---|---|---|---|")


def client_settings_page() -> str:
    """docs/client-settings.md."""
    common = list(settings_of(ClientConfig))
    lines = [
        "# Settings of the clients",
        "",
        "Made from `barnabas.clients.settings.client_config`, `.producer.producer_config` and",
        "`.consumer.consumer_config` by `make docs`. `Producer` and `Consumer` take these as keyword arguments;",
        "Kafka's name of a setting is the same with dots. Sizes are bytes, times (`_ms`) milliseconds.",
        "The importance is how likely a user is to need the setting, as Kafka states it. A wrong name, type or",
        "value fails when the client is made; the error has the value, what would be right, and the nearest right",
        "name.",
        "",
        "```python",
        'producer = Producer("localhost:9092", linger_ms=5, compression_type="zstd")',
        'consumer = Consumer("localhost:9092", group_id="reports", auto_offset_reset="earliest")',
        'admin = Admin("localhost:9092", config=ClientConfig(client_id="deployment"))',
        "```",
    ]
    for title, settings in (
        ("Producer, consumer and admin, unless a table below says otherwise", common),
        ("Producer", [each for each in settings_of(ProducerConfig) if each not in common]),
        ("Consumer", [each for each in settings_of(ConsumerConfig) if each not in common]),
    ):
        lines += ["", f"## {title}", "", *_TABLE_HEAD]
        lines += map(_row, settings)
    return "\n".join(lines) + "\n"


def _row(each: Setting) -> str:
    type_name = each.type.replace("|", "\\|")
    bound = each.bound
    values = ", ".join(f"`{choice}`" for choice in bound.choices)
    if bound.minimum is not None:
        values = f"{bound.minimum} or more"
    default = "`none given`" if each.default is None else f"`{each.default!r}`"
    return f"| `{each.name}` | `{type_name}` | {default} | {values} | {bound.importance} | {bound.documentation} |"
