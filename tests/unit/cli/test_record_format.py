"""How consumed records are printed."""

from barnabas.cli.records.consume import RecordFormat, as_json
from barnabas.clients.consumer import ConsumerRecord

RECORD = ConsumerRecord("t", 3, 42, 1234, 0, b"key", b"va\xfflue", (("a", b"1"), ("b", None)))
BARE = ConsumerRecord("t", 0, 0, -1, -1, None, None)


def test_values_are_printed_as_they_are() -> None:
    plain = RecordFormat("\t", timestamp=False, partition=False, offset=False, headers=False, key=False)
    assert plain(RECORD) == b"va\xfflue"
    assert plain(BARE) == b"null"


def test_everything_in_the_order_of_kafkas_console_consumer() -> None:
    full = RecordFormat("|", timestamp=True, partition=True, offset=True, headers=True, key=True)
    assert full(RECORD) == b"CreateTime:1234|Partition:3|Offset:42|a:1,b:null|key|va\xfflue"
    assert full(BARE) == b"NoTimestampType:-1|Partition:0|Offset:0|NO_HEADERS|null|null"


def test_json_keeps_bytes_that_are_no_text() -> None:
    assert as_json(RECORD) == (
        b'{"topic": "t", '
        b'"partition": 3, "offset": 42, "timestamp": 1234, "headers": [["a", "1"], ["b", null]], "key": "key", '
        b'"value": {"base64": "dmH/bHVl"}}'
    )
