// franz-go as a member of a group (see ../talk.py): member name=value ...
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	batchRecords = 200
	poll         = 100 * time.Millisecond
)

var output sync.Mutex

func tell(event string, fields map[string]any) {
	line := map[string]any{"event": event, "ms": time.Now().UnixMilli()}
	for name, value := range fields {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

func fail(err error) {
	tell("failed", map[string]any{"reason": err.Error()})
	os.Exit(1)
}

func places(partitions map[string][]int32) [][]any {
	list := [][]any{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			list = append(list, []any{topic, number})
		}
	}
	return list
}

func settings() map[string]string {
	given := map[string]string{}
	for _, argument := range os.Args[1:] {
		name, value, _ := strings.Cut(argument, "=")
		given[name] = value
	}
	return given
}

func milliseconds(text string) time.Duration {
	number, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return time.Duration(number) * time.Millisecond
}

func options(given map[string]string) []kgo.Opt {
	session := milliseconds(given["session_ms"])
	balancers := map[string]kgo.GroupBalancer{
		"range":              kgo.RangeBalancer(),
		"roundrobin":         kgo.RoundRobinBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	gone := func(lost bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			tell("revoked", map[string]any{"partitions": places(partitions), "lost": lost})
		}
	}
	list := []kgo.Opt{
		kgo.SeedBrokers(given["bootstrap"]),
		kgo.ClientID("franz-go"),
		kgo.ConsumerGroup(given["group"]),
		kgo.ConsumeTopics(strings.Split(given["topics"], ",")...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.BlockRebalanceOnPoll(),
		kgo.FetchMaxWait(poll),
		kgo.MetadataMaxAge(3 * time.Second),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			tell("assigned", map[string]any{"partitions": places(partitions)})
		}),
		kgo.OnPartitionsLost(gone(true)),
	}
	if given["commit"] != "auto" { // which, too, is done when partitions are revoked
		list = append(list, kgo.DisableAutoCommit(), kgo.OnPartitionsRevoked(gone(false)))
	}
	if given["protocol"] == "consumer" {
		list = append(list, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else {
		list = append(list, kgo.SessionTimeout(session), kgo.HeartbeatInterval(min(500*time.Millisecond, session/3)))
		if given["assignor"] != "" {
			list = append(list, kgo.Balancers(balancers[given["assignor"]]))
		}
	}
	if strings.HasPrefix(given["topics"], "^") {
		list = append(list, kgo.ConsumeRegex())
	}
	if given["instance"] != "" {
		list = append(list, kgo.InstanceID(given["instance"]))
	}
	return list
}

type member struct {
	given  map[string]string
	client *kgo.Client
	// The last record of each partition that was worked on and is not committed.
	positions map[string]*kgo.Record
}

func (m *member) workOn(records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	if sink := m.given["sink"]; sink != "" {
		copies := []*kgo.Record{}
		for _, record := range records {
			copies = append(copies, &kgo.Record{Topic: sink, Value: record.Value})
		}
		if err := m.client.ProduceSync(context.Background(), copies...).FirstErr(); err != nil {
			fail(err)
		}
	}
	time.Sleep(milliseconds(m.given["pause_ms"]))
	ranges := [][]any{}
	for _, record := range records {
		at := fmt.Sprintf("%s/%d", record.Topic, record.Partition)
		if before := len(ranges) - 1; before >= 0 && ranges[before][0] == record.Topic &&
			ranges[before][1] == record.Partition && ranges[before][3].(int64) == record.Offset-1 {
			ranges[before][3] = record.Offset
		} else {
			ranges = append(ranges, []any{record.Topic, record.Partition, record.Offset, record.Offset})
		}
		m.positions[at] = record
	}
	tell("records", map[string]any{"ranges": ranges})
	if m.given["commit"] == "batch" {
		m.commit()
	}
}

func (m *member) commit() {
	offsets := [][]any{}
	records := []*kgo.Record{}
	for _, record := range m.positions {
		offsets = append(offsets, []any{record.Topic, record.Partition, record.Offset + 1})
		records = append(records, record)
	}
	m.positions = map[string]*kgo.Record{}
	if err := m.client.CommitRecords(context.Background(), records...); err != nil {
		tell("commit_refused", map[string]any{"reason": err.Error()})
		return
	}
	tell("committed", map[string]any{"offsets": offsets})
}

func (m *member) run(commands <-chan string) {
	for {
		select {
		case command := <-commands:
			if command == "close" {
				return
			}
			m.commit()
		default:
		}
		limited, cancel := context.WithTimeout(context.Background(), poll)
		fetches := m.client.PollRecords(limited, batchRecords)
		cancel()
		for _, failure := range fetches.Errors() {
			if failure.Err != context.DeadlineExceeded {
				fmt.Fprintln(os.Stderr, failure.Err)
			}
		}
		m.workOn(fetches.Records())
		m.client.AllowRebalance()
	}
}

func main() {
	given := settings()
	client, err := kgo.NewClient(options(given)...)
	if err != nil {
		fail(err)
	}
	commands := make(chan string)
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			commands <- lines.Text()
		}
		commands <- "close"
	}()
	m := &member{given, client, map[string]*kgo.Record{}}
	m.run(commands)
	client.CloseAllowingRebalance()
	tell("closed", nil)
}
