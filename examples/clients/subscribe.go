// Subscribe with a content filter, in Go (go get github.com/eclipse/paho.golang).
//
//	go run subscribe.go localhost:1883 "severity >= 3" 2
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/eclipse/paho.golang/paho"
)

func main() {
	address, where := os.Args[1], os.Args[2]
	left, err := strconv.Atoi(os.Args[3])
	check(err)
	conn, err := net.Dial("tcp", address)
	check(err)

	enough := make(chan struct{})
	client := paho.NewClient(paho.ClientConfig{
		Conn: conn,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){
			func(received paho.PublishReceived) (bool, error) {
				fmt.Println(received.Packet.Topic, string(received.Packet.Payload))
				left--
				if left == 0 {
					close(enough)
				}
				return true, nil
			},
		},
	})
	ctx := context.Background()
	_, err = client.Connect(ctx, &paho.Connect{CleanStart: true, KeepAlive: 30})
	check(err)

	granted, err := client.Subscribe(ctx, &paho.Subscribe{
		Subscriptions: []paho.SubscribeOptions{{Topic: "traffic/#", QoS: 1}},
		Properties:    &paho.SubscribeProperties{User: paho.UserProperties{{Key: "where", Value: where}}},
	})
	if granted != nil && granted.Reasons[0] >= 0x80 {
		fmt.Fprintln(os.Stderr, "refused:", granted.Properties.ReasonString)
		os.Exit(1)
	}
	check(err)
	fmt.Fprintln(os.Stderr, "subscribed")

	<-enough
	check(client.Disconnect(&paho.Disconnect{}))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
