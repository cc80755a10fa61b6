// franz-go through one login after another, for tests/security/matrix (see exam_program.py there): each line on the
// standard input is a login, each line on the standard output is what was read with it, or why it failed.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const patience = 2 * time.Minute

func mechanism(login map[string]string) (sasl.Mechanism, error) {
	user, password := login["user"], login["password"]
	credential := scram.Auth{User: user, Pass: password, IsToken: login["is_by_token"] == "true"}
	switch login["mechanism"] {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return credential.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return credential.AsSha512Mechanism(), nil
	case "OAUTHBEARER":
		return oauth.Auth{Token: password}.AsMechanism(), nil
	}
	return nil, fmt.Errorf("unknown mechanism %q", login["mechanism"])
}

func connection(login map[string]string) ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.SeedBrokers(login["bootstrap"])}
	if strings.HasSuffix(login["protocol"], "SSL") {
		authority, err := os.ReadFile(login["trust_pem"])
		if err != nil {
			return nil, err
		}
		trusted := x509.NewCertPool()
		if !trusted.AppendCertsFromPEM(authority) {
			return nil, fmt.Errorf("no certificate in %s", login["trust_pem"])
		}
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}))
	}
	if login["mechanism"] != "" {
		chosen, err := mechanism(login)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(chosen))
	}
	return options, nil
}

func records(values string) []*kgo.Record {
	list := []*kgo.Record{}
	for _, value := range strings.Split(values, ",") {
		list = append(list, kgo.StringRecord(value))
	}
	return list
}

// with runs a function with a new client, which has these options too.
func with(options []kgo.Opt, use func(*kgo.Client) error, more ...kgo.Opt) error {
	client, err := kgo.NewClient(append(append([]kgo.Opt{}, options...), more...)...)
	if err != nil {
		return err
	}
	defer client.Close()
	return use(client)
}

func write(ctx context.Context, options []kgo.Opt, login map[string]string) error {
	topic := kgo.DefaultProduceTopic(login["topic"])
	err := with(options, func(client *kgo.Client) error {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		if err := client.ProduceSync(ctx, records(login["in_transaction"])...).FirstErr(); err != nil {
			return err
		}
		return client.EndTransaction(ctx, kgo.TryCommit)
	}, topic, kgo.TransactionalID(login["topic"]))
	if err != nil {
		return err
	}
	return with(options, func(client *kgo.Client) error {
		return client.ProduceSync(ctx, records(login["plain_values"])...).FirstErr()
	}, topic)
}

func read(ctx context.Context, options []kgo.Opt, topic string, count int) ([]string, error) {
	found := []string{}
	err := with(options, func(client *kgo.Client) error {
		for len(found) < count {
			fetches := client.PollFetches(ctx)
			if failures := fetches.Errors(); len(failures) > 0 {
				return failures[0].Err
			}
			for _, record := range fetches.Records() {
				found = append(found, string(record.Value))
			}
		}
		return client.CommitUncommittedOffsets(ctx)
	},
		kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	return found, err
}

func sit(login map[string]string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	options, err := connection(login)
	if err != nil {
		return nil, err
	}
	err = with(options, func(client *kgo.Client) error {
		answer, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, login["topic"])
		if err != nil {
			return err
		}
		return answer.Err
	})
	if err != nil {
		return nil, err
	}
	if err := write(ctx, options, login); err != nil {
		return nil, err
	}
	count := len(records(login["in_transaction"])) + len(records(login["plain_values"]))
	return read(ctx, options, login["topic"], count)
}

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		login := map[string]string{}
		for _, field := range strings.Split(lines.Text(), "\t") {
			name, value, _ := strings.Cut(field, "=")
			login[name] = value
		}
		found, err := sit(login)
		if err != nil {
			fmt.Printf("failed=%q\n", err.Error())
		} else {
			fmt.Printf("read=%s\n", strings.Join(found, ","))
		}
	}
}
