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

	"github.com/twmb/franz-go/pkg/kgo"

	"member/program"
)

func readUpTo(ctx context.Context, session *kgo.GroupTransactSession, offset int64) {
	for {
		fetches := session.PollRecords(ctx, 1)
		program.Must(fetches.Err())
		for _, record := range fetches.Records() {
			if record.Offset+1 == offset {
				return
			}
		}
	}
}

func main() {
	bootstrap, name, source, target := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	ctx, cancel := context.WithTimeout(context.Background(), program.Patience)
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
	program.Must(err)
	defer session.Close()
	for _, transaction := range os.Args[5:] {
		end, text, _ := strings.Cut(transaction, "=")
		offset, err := strconv.ParseInt(text, 10, 64)
		program.Must(err)
		program.Must(session.Begin())
		readUpTo(ctx, session, offset)
		program.Must(session.ProduceSync(ctx, kgo.StringRecord(text)).FirstErr())
		isCommitted, err := session.End(ctx, kgo.TransactionEndTry(end == "commit"))
		program.Must(err)
		if isCommitted != (end == "commit") {
			program.Must(fmt.Errorf("transaction %s: committed is %v", transaction, isCommitted))
		}
	}
}
