package doctor

import (
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"hcclps/p2p/sockets/certs"
)

func TestCertificatesTokensAndOpenDoors(t *testing.T) {
	const year = 365 * 24 * time.Hour
	ca, err := certs.NewAuthority("prod", year)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(certs.Request{Name: "s1", Validity: year})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	all := Options{Certificate: "/tls/s1.crt", Key: "/tls/s1.key", Authority: "/tls/ca.crt"}
	for name, c := range map[string]struct {
		opt   func(o *Options)
		level Level
		says  []string
	}{
		"good":            {func(*Options) {}, OK, []string{"/tls/s1.crt", `"s1"`, "good until"}},
		"authority":       {func(*Options) {}, OK, []string{"/tls/ca.crt", `"prod CA"`}},
		"soon over":       {func(o *Options) { o.Now = now.Add(year - 10*24*time.Hour) }, Warn, []string{"/tls/s1.crt", "soon"}},
		"over":            {func(o *Options) { o.Now = now.Add(2 * year) }, Fail, []string{"/tls/s1.crt", "ended on"}},
		"clock is behind": {func(o *Options) { o.Now = now.Add(-year) }, Fail, []string{"/tls/s1.crt", "clock"}},
		"missing":         {func(o *Options) { o.Certificate = "/none" }, Fail, []string{"/none", "cannot be read"}},
		"no certificate":  {func(o *Options) { o.Certificate = "/tls/s1.key" }, Fail, []string{"/tls/s1.key", "no certificate"}},
		"no PEM":          {func(o *Options) { o.Certificate = "/tls/token" }, Fail, []string{"no PEM file"}},
		"open secret":     {func(o *Options) { o.Token = "/tls/token" }, Warn, []string{"chmod 600 /tls/token", "0644"}},
		"refused":         {func(o *Options) { o.Refused = errPlanted }, Fail, []string{"planted"}},
		"open door":       {func(o *Options) { *o = Options{Listen: "10.0.0.5:7000"} }, Fail, []string{"10.0.0.5:7000", "--insecure"}},
		"door of a host":  {func(o *Options) { *o = Options{Listen: "node5:7000"} }, Fail, []string{"node5:7000"}},
		"said aloud":      {func(o *Options) { *o = Options{Listen: "10.0.0.5:7000", Insecure: true} }, OK, nil},
		"loopback":        {func(o *Options) { *o = Options{Listen: "127.0.0.1:7000"} }, OK, nil},
		"unix":            {func(o *Options) { *o = Options{Listen: "unix:/s"} }, OK, nil},
		"behind TLS":      {func(o *Options) { o.Listen = "10.0.0.5:7000" }, OK, []string{"good until"}},
	} {
		m := healthy()
		m.file("/tls/s1.crt", pair.Cert)
		m.file("/tls/ca.crt", ca.Pair().Cert)
		m.files["tls/s1.key"] = &fstest.MapFile{Data: pair.Key, Mode: 0o600}
		m.files["tls/token"] = &fstest.MapFile{Data: []byte("secret"), Mode: fs.FileMode(0o644)}
		opt := all
		opt.Now = now
		c.opt(&opt)
		r := m.examine(t, opt)
		r.want(t, "security", c.level, c.says...)
		if fails := r.count(Fail) > 0; fails != (c.level == Fail) {
			t.Errorf("fails: %v, of %+v", fails, r.about("security"))
		}
		if t.Failed() {
			t.Fatalf("in case %q", name)
		}
	}
}
