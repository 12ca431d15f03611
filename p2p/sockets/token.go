package sockets

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	minToken, maxToken = 16, 1024

	nonceSize  = 32
	tokenMagic = "hct\x01" // with the version
	exporter   = "EXPORTER-hcclps-token"
)

// readToken reads a secret. A file that others may read is refused: it is none.
func readToken(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read token: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read token: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o037 != 0 && info.Mode().IsRegular() {
		return nil, fmt.Errorf("read token: %s has mode %04o, others can read it: chmod 600 %s", path, mode, path)
	}
	if b = bytes.TrimSpace(b); len(b) < minToken || len(b) > maxToken {
		return nil, fmt.Errorf("read token: %s holds %d bytes, want %d to %d: make one with head -c 32 /dev/urandom | base64 > %s",
			path, len(b), minToken, maxToken, path)
	}
	return b, nil
}

// The exchange of a token. Each side proves that it knows the token by a MAC over both sides' nonces and, inside TLS, over a secret of that
// TLS connection, so that nobody in the middle can pass the proofs on.
//
//	dialler:  "hct" 1, nonce (32)
//	acceptor: "hct" 1, nonce (32), MAC of "server"
//	dialler:  MAC of "client"
//	acceptor: "hcOK", or a refusal

// errOtherToken is what each side says when the other does not know the token.
var errOtherToken = errors.New("the two sides have different tokens: give both the same --token-file")

// proof is the MAC of one side.
func proof(token []byte, side string, dialler, acceptor, binding []byte) []byte {
	mac := hmac.New(sha256.New, token)
	for _, b := range [][]byte{[]byte("hcclps token 1 " + side), dialler, acceptor, binding} {
		mac.Write(b) // of fixed length but for the first, which tells sides apart, and the last
	}
	return mac.Sum(nil)
}

// present proves the dialler's token. A refusal in place of the answer is returned as an error.
func present(rw io.ReadWriter, token, binding []byte) error {
	mine := make([]byte, nonceSize)
	_, _ = rand.Read(mine) // never fails
	if _, err := rw.Write(append([]byte(tokenMagic), mine...)); err != nil {
		return err
	}
	magic, err := readMagic(rw)
	if err != nil {
		return err
	}
	if magic != tokenMagic {
		return errors.New("it does not ask for a token: leave --token-file out here, or give the other side one")
	}
	answer := make([]byte, nonceSize+sha256.Size)
	if _, err := io.ReadFull(rw, answer); err != nil {
		return err
	}
	theirs, mac := answer[:nonceSize], answer[nonceSize:]
	if !hmac.Equal(mac, proof(token, "server", mine, theirs, binding)) {
		return errOtherToken
	}
	_, err = rw.Write(proof(token, "client", mine, theirs, binding))
	return err
}

// challenge checks the dialler's token; its first bytes, the magic, were read before.
func challenge(rw io.ReadWriter, token, binding []byte) error {
	theirs := make([]byte, nonceSize)
	if _, err := io.ReadFull(rw, theirs); err != nil {
		return err
	}
	mine := make([]byte, nonceSize)
	_, _ = rand.Read(mine) // never fails
	answer := append([]byte(tokenMagic), mine...)
	if _, err := rw.Write(append(answer, proof(token, "server", theirs, mine, binding)...)); err != nil {
		return err
	}
	mac := make([]byte, sha256.Size)
	if _, err := io.ReadFull(rw, mac); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it left instead") // and this is more than that it left
		}
		return fmt.Errorf("no proof of the token: %w: perhaps the caller has another one", err)
	}
	if !hmac.Equal(mac, proof(token, "client", theirs, mine, binding)) {
		return errOtherToken
	}
	return nil
}
