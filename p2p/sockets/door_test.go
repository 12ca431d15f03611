package sockets

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
	"hcclps/p2p/sockets/certs"
)

// authority makes a CA.
func authority(t *testing.T) *certs.Authority {
	t.Helper()
	ca, err := certs.NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// network makes one whose certificate is of ca, which believes in the CAs trust, with a token unless that is "".
func network(t *testing.T, token string, ca *certs.Authority, trust ...*certs.Authority) Network {
	t.Helper()
	cfg := Config{}
	dir := t.TempDir()
	if ca != nil {
		pair, err := ca.Issue(certs.Request{Name: "someone", Validity: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		cfg.TLSCert, cfg.TLSKey, cfg.TLSCA = filepath.Join(dir, "crt"), filepath.Join(dir, "key"), filepath.Join(dir, "ca")
		if err := pair.Write(cfg.TLSCert, cfg.TLSKey); err != nil {
			t.Fatal(err)
		}
		var all []byte
		for _, a := range append(trust, ca) {
			all = append(all, a.Pair().Cert...)
		}
		if err := os.WriteFile(cfg.TLSCA, all, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if token != "" {
		cfg.TokenFile = filepath.Join(dir, "token")
		if err := os.WriteFile(cfg.TokenFile, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// meet has one network dial the other, "ping" sent and "pong" answered. It returns what stopped each side.
func meet(t *testing.T, dialler, acceptor Network, listen string) (dialled, accepted error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := acceptor.Listen(ctx, listen)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			err = say(conn, "pong", "ping", false)
		}
		ended <- err
	}()
	conn, err := dialler.Dial(ctx, l.Addr().String())
	if err == nil {
		err = say(conn, "ping", "pong", true)
	}
	_ = l.Close() // or the acceptor waits for one who never comes
	return err, <-ended
}

// say sends and receives, in the order of who is first, and closes.
func say(conn net.Conn, out, in string, first bool) error {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if first {
		if _, err := io.WriteString(conn, out); err != nil {
			return err
		}
	}
	got := make([]byte, len(in))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != in {
		return errors.New("received " + string(got))
	}
	if first {
		return nil
	}
	_, err := io.WriteString(conn, out)
	return err
}

func TestDoor(t *testing.T) {
	ours, theirs := authority(t), authority(t)
	const secret, other = "0123456789abcdef", "0123456789abcdeX"
	later := func(n Network) Network { // one whose clock is a day ahead
		n.tls.config.Time = func() time.Time { return time.Now().Add(24 * time.Hour) }
		return n
	}
	tests := []struct {
		name              string
		dialler, acceptor Network
		dialled, accepted string // "": admitted
	}{
		{"nothing", Network{}, Network{}, "", ""},
		{"tls", network(t, "", ours), network(t, "", ours), "", ""},
		{"token", network(t, secret, nil), network(t, secret, nil), "", ""},
		{"both", network(t, secret, ours), network(t, secret, ours), "", ""},
		{"other ca of the acceptor", network(t, "", ours), network(t, "", theirs, ours), `certificate of "someone" is not of the CA in`, "it refuses our certificate"},
		{"other ca of the dialler", network(t, "", theirs, ours), network(t, "", ours), "it refuses our certificate", `certificate of "someone" is not of the CA in`},
		{"expired acceptor", later(network(t, "", ours)), network(t, "", ours), `certificate of "someone", good from`, "it refuses our certificate"},
		{"expired dialler", network(t, "", ours), later(network(t, "", ours)), "it refuses our certificate", `certificate of "someone", good from`},
		{"plain dialler", Network{}, network(t, "", ours), "this server speaks TLS only", "this server speaks TLS only"},
		{"plain dialler with token", network(t, secret, nil), network(t, secret, ours), "this server speaks TLS only", "this server speaks TLS only"},
		{"plain acceptor", network(t, "", ours), Network{}, "one side alone has TLS", "received"},
		{"plain acceptor with token", network(t, secret, ours), network(t, secret, nil), "does not speak TLS", "the caller speaks TLS"},
		{"dialler without token", Network{}, network(t, secret, nil), "this server wants a token", "this server wants a token"},
		{"dialler without token, tls", network(t, "", ours), network(t, secret, ours), "this server wants a token", "this server wants a token"},
		{"acceptor without token", network(t, secret, nil), Network{}, "one side alone has TLS or a token", "received"},
		{"acceptor without token, tls", network(t, secret, ours), network(t, "", ours), "takes no token", "takes no token"},
		{"other token", network(t, secret, nil), network(t, other, nil), "different tokens", "another one"},
		{"other token, tls", network(t, secret, ours), network(t, other, ours), "different tokens", "another one"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dialled, accepted := meet(t, test.dialler, test.acceptor, "127.0.0.1:0")
			check(t, "dialler", dialled, test.dialled)
			check(t, "acceptor", accepted, test.accepted)
		})
	}
}

// check wants an error that says something, or none.
func check(t *testing.T, who string, err error, says string) {
	t.Helper()
	switch {
	case says == "" && err != nil:
		t.Errorf("%s: %v", who, err)
	case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
		t.Errorf("%s: %v, want it to say %q", who, err, says)
	}
	if err != nil && says != "" && who == "dialler" && !errors.Is(err, ErrRefused) {
		t.Errorf("%s: %v is no ErrRefused", who, err)
	}
	if stays := !strings.Contains(says, "one side alone"); err != nil && says != "" && who == "dialler" && errors.Is(err, p2p.ErrRefused) != stays {
		t.Errorf("%s: %v: that it stays is %v", who, err, !stays)
	}
}

// A certificate for another host is no proof of who answers.
func TestCertificateOfAnotherHost(t *testing.T) {
	ca := authority(t)
	dialled, _ := meet(t, network(t, "", ca), network(t, "", ca), "127.0.0.2:0")
	check(t, "dialler", dialled, "is not for 127.0.0.2 but for localhost")
}

func TestUnixSocketsAskForTheToken(t *testing.T) {
	ca := authority(t)
	const secret, other = "0123456789abcdef", "0123456789abcdeX"
	path := "unix:" + filepath.Join(t.TempDir(), "s")
	dialled, accepted := meet(t, network(t, secret, ca), network(t, secret, nil), path)
	check(t, "dialler", dialled, "")
	check(t, "acceptor", accepted, "")
	dialled, accepted = meet(t, network(t, secret, ca), network(t, other, ca), path)
	check(t, "dialler", dialled, "different tokens")
	check(t, "acceptor", accepted, "another one")
	dialled, accepted = meet(t, Network{}, network(t, secret, ca), path)
	check(t, "dialler", dialled, "wants a token")
	check(t, "acceptor", accepted, "wants a token")
}

// Nobody waits longer than 3 s for somebody who says nothing, or says it very slowly.
func TestSilenceAtTheDoor(t *testing.T) {
	ca := authority(t)
	const secret = "0123456789abcdef"
	for name, n := range map[string]Network{"token": network(t, secret, nil), "tls": network(t, "", ca), "both": network(t, secret, ca)} {
		t.Run(name+" dialler", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mine, peer := inproc.Pipe(0)
				defer peer.Close()
				begin := time.Now()
				_, err := n.knock(t.Context(), mine, "host:1")
				if err == nil || !strings.Contains(err.Error(), "silent for 3s") || time.Since(begin) != admitTimeout {
					t.Errorf("after %v: %v", time.Since(begin), err)
				}
			})
		})
		t.Run(name+" acceptor", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mine, peer := inproc.Pipe(0)
				defer peer.Close()
				begin := time.Now()
				_, err := n.guard(mine).Read(make([]byte, 1))
				if err == nil || !strings.Contains(err.Error(), "silent") || time.Since(begin) != admitTimeout {
					t.Errorf("after %v: %v", time.Since(begin), err)
				}
			})
		})
	}
	t.Run("context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			mine, peer := inproc.Pipe(0)
			defer peer.Close()
			ctx, cancel := context.WithCancelCause(t.Context())
			reason := errors.New("changed my mind")
			time.AfterFunc(time.Second, func() { cancel(reason) })
			if _, err := network(t, secret, nil).knock(ctx, mine, "host:1"); !errors.Is(err, reason) {
				t.Errorf("dial with an ended context: %v", err)
			}
		})
	})
}

// The token does not travel, and what travels proves nothing a second time.
func TestTokenIsNotSentNorReplayed(t *testing.T) {
	const secret = "0123456789abcdef"
	n := network(t, secret, nil)
	synctest.Test(t, func(t *testing.T) {
		mine, peer := inproc.Pipe(0)
		accepted, acceptor := inproc.Pipe(0)
		var fromDialler, fromAcceptor []byte
		go tee(peer, accepted, &fromDialler)
		go tee(accepted, peer, &fromAcceptor)
		guarded := n.guard(acceptor)
		got := make(chan error, 1)
		go func() { _, err := guarded.Read(make([]byte, 1)); got <- err }()
		conn, err := n.knock(t.Context(), mine, "host:1")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte("x"))
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Close(), guarded.Close()
		synctest.Wait()
		if all := string(fromDialler) + string(fromAcceptor); strings.Contains(all, secret) || len(all) < 140 {
			t.Errorf("%d bytes travelled: %q", len(all), all)
		}

		mine, peer = inproc.Pipe(0)
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		_, _ = peer.Write(fromDialler)
		if _, err := n.guard(mine).Read(make([]byte, 1)); !errors.Is(err, ErrRefused) {
			t.Errorf("a replay: %v", err)
		}
		_ = peer.Close()
	})
}

func tee(from, to net.Conn, record *[]byte) {
	b := make([]byte, 256)
	for {
		n, err := from.Read(b)
		*record = append(*record, b[:n]...)
		if err != nil {
			_ = to.Close()
			return
		}
		_, _ = to.Write(b[:n])
	}
}

func TestSecretsAndCertificatesAreChecked(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca, other := authority(t), authority(t)
	pair, err := ca.Issue(certs.Request{Name: "s1", Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	expired, err := ca.Issue(certs.Request{Name: "old", Validity: 1})
	if err != nil {
		t.Fatal(err)
	}
	crt, key := file("crt", string(pair.Cert), 0o600), file("key", string(pair.Key), 0o600)
	oldCrt, oldKey := file("old.crt", string(expired.Cert), 0o600), file("old.key", string(expired.Key), 0o600)
	caFile, otherFile := file("ca", string(ca.Pair().Cert), 0o600), file("other", string(other.Pair().Cert), 0o600)
	for _, test := range []struct {
		cfg  Config
		says string
	}{
		{Config{TokenFile: filepath.Join(dir, "none")}, "no such file"},
		{Config{TokenFile: file("short", "0123456789abcde\n", 0o600)}, "holds 15 bytes"},
		{Config{TokenFile: file("long", strings.Repeat("x", 1025), 0o600)}, "holds 1025 bytes"},
		{Config{TokenFile: file("open", "0123456789abcdef", 0o644)}, "chmod 600"},
		{Config{TLSCert: crt}, "all three"},
		{Config{TLSCert: crt, TLSKey: oldKey, TLSCA: caFile}, "does not match"},
		{Config{TLSCert: crt, TLSKey: key, TLSCA: filepath.Join(dir, "none")}, "no such file"},
		{Config{TLSCert: crt, TLSKey: key, TLSCA: key}, "no certificate in it"},
		{Config{TLSCert: crt, TLSKey: key, TLSCA: otherFile}, `certificate of "s1" is not of the CA in`},
		{Config{TLSCert: oldCrt, TLSKey: oldKey, TLSCA: caFile}, `certificate of "old", good from`},
	} {
		if _, err := New(test.cfg); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v, want it to say %q", test.cfg, err, test.says)
		}
	}
}

// FuzzDoor feeds both sides with whatever: neither lets it pass, and both end.
func FuzzDoor(f *testing.F) {
	f.Add([]byte(noneMagic))
	f.Add([]byte(okMagic))
	f.Add([]byte(refuseMagic + "\x03\x00bad"))
	f.Add([]byte(refuseMagic + "\xff\xff"))
	f.Add([]byte("\x16\x03\x01\x00\x05hello"))
	f.Add(append([]byte(tokenMagic), make([]byte, nonceSize+nonceSize)...))
	f.Fuzz(func(t *testing.T, input []byte) {
		n := Network{token: []byte("0123456789abcdef")}
		for _, dialler := range []bool{true, false} {
			mine, peer := inproc.Pipe(max(len(input), 256))
			_, _ = peer.Write(input)
			go func() { _, _ = io.Copy(io.Discard, peer); _ = peer.Close() }()
			time.AfterFunc(10*time.Millisecond, func() { _ = peer.Close() })
			var err error
			if dialler {
				_, err = n.knock(t.Context(), mine, "host:1")
			} else {
				_, err = n.guard(mine).Read(make([]byte, 1))
			}
			if err == nil {
				t.Errorf("%q is admitted, as dialler %v", input, dialler)
			}
			_ = mine.Close()
		}
	})
}
