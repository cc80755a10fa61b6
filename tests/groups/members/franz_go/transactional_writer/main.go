// franz-go as a transactional producer, for tests/clients/test_transactional_clients.py:
// transactional_writer bootstrap transactional-id topic (commit|abort)=value,value ...
package main

import (
	"context"
	"fmt"
	"os"
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

func main() {
	bootstrap, transactionalID, topic := os.Args[1], os.Args[2], os.Args[3]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.TransactionalID(transactionalID),
		kgo.DefaultProduceTopic(topic),
	)
	must(err)
	defer client.Close()
	for _, transaction := range os.Args[4:] {
		end, values, _ := strings.Cut(transaction, "=")
		must(client.BeginTransaction())
		for _, value := range strings.Split(values, ",") {
			must(client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr())
		}
		must(client.EndTransaction(ctx, kgo.TransactionEndTry(end == "commit")))
	}
}
