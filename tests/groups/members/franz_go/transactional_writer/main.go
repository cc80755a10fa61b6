// franz-go as a transactional producer, for tests/clients/test_transactional_clients.py:
// transactional_writer bootstrap transactional-id topic (commit|abort)=value,value ...
package main

import (
	"context"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"member/program"
)

func main() {
	bootstrap, transactionalID, topic := os.Args[1], os.Args[2], os.Args[3]
	ctx, cancel := context.WithTimeout(context.Background(), program.Patience)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.TransactionalID(transactionalID),
		kgo.DefaultProduceTopic(topic),
	)
	program.Must(err)
	defer client.Close()
	for _, transaction := range os.Args[4:] {
		end, values, _ := strings.Cut(transaction, "=")
		program.Must(client.BeginTransaction())
		for _, value := range strings.Split(values, ",") {
			program.Must(client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr())
		}
		program.Must(client.EndTransaction(ctx, kgo.TransactionEndTry(end == "commit")))
	}
}
