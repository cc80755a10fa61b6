// franz-go commits the offsets of what it reads in transactions, for tests/clients/test_transactional_clients.py:
// offset_mover bootstrap name source target (commit|abort)=offset ...
// `name` is the transactional id and the group; each transaction reads up to its offset and writes that to `target`.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = time.Minute

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func readUpTo(ctx context.Context, session *kgo.GroupTransactSession, offset int64) {
	for {
		fetches := session.PollRecords(ctx, 1)
		must(fetches.Err())
		for _, record := range fetches.Records() {
			if record.Offset+1 == offset {
				return
			}
		}
	}
}

func main() {
	bootstrap, name, source, target := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap),
		kgo.TransactionalID(name),
		kgo.ConsumerGroup(name),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DefaultProduceTopic(target),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	)
	must(err)
	defer session.Close()
	for _, transaction := range os.Args[5:] {
		end, text, _ := strings.Cut(transaction, "=")
		offset, err := strconv.ParseInt(text, 10, 64)
		must(err)
		must(session.Begin())
		readUpTo(ctx, session, offset)
		must(session.ProduceSync(ctx, kgo.StringRecord(text)).FirstErr())
		isCommitted, err := session.End(ctx, kgo.TransactionEndTry(end == "commit"))
		must(err)
		if isCommitted != (end == "commit") {
			must(fmt.Errorf("transaction %s: committed is %v", transaction, isCommitted))
		}
	}
}
