package yabs

import "bytes"

// The part of YABS's JSON that is read. Numbers are missing where a test failed.
type output struct {
	Version string `json:"version"`
	OS      struct {
		Arch   string `json:"arch"`
		Distro string `json:"distro"`
		Kernel string `json:"kernel"`
		VM     string `json:"vm"`
	} `json:"os"`
	CPU struct {
		Model string `json:"model"`
		Cores number `json:"cores"`
		Freq  string `json:"freq"`
	} `json:"cpu"`
	Memory struct {
		RAM   number `json:"ram"`
		Units string `json:"ram_units"`
	} `json:"mem"`
	Partition string      `json:"partition"`
	FIO       []fioResult `json:"fio"`
	IPerf     []struct {
		Mode     string `json:"mode"`
		Provider string `json:"provider"`
		Place    string `json:"loc"`
		Send     string `json:"send"`
		Receive  string `json:"recv"`
		Latency  string `json:"latency"`
	} `json:"iperf"`
	Geekbench []struct {
		Version number `json:"version"`
		Single  number `json:"single"`
		Multi   number `json:"multi"`
	} `json:"geekbench"`
	Runtime struct {
		Start number `json:"start"`
		End   number `json:"end"`
	} `json:"runtime"`
}

type fioResult struct {
	Block      string `json:"bs"`
	ReadSpeed  number `json:"speed_r"`
	ReadIOPS   number `json:"iops_r"`
	WriteSpeed number `json:"speed_w"`
	WriteIOPS  number `json:"iops_w"`
	Speed      number `json:"speed_rw"`
	IOPS       number `json:"iops_rw"`
	Units      string `json:"speed_units"`
}

// mended returns the JSON with what is missing filled in. YABS puts its JSON together as text: after a
// test that failed nothing stands between a colon and the comma, or the bracket of a list is not opened.
func mended(text []byte) []byte {
	var out bytes.Buffer
	quoted := false
	colon := false // the last byte that counts was a colon outside of quotes
	for i := 0; i < len(text); i++ {
		c := text[i]
		if quoted {
			out.WriteByte(c)
			switch c {
			case '\\':
				if i++; i < len(text) {
					out.WriteByte(text[i])
				}
			case '"':
				quoted = false
			}
			continue
		}
		switch {
		case colon && (c == ',' || c == '}'):
			out.WriteString("null")
		case colon && c == ']':
			out.WriteByte('[')
		}
		out.WriteByte(c)
		quoted = c == '"'
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			colon = c == ':'
		}
	}
	return out.Bytes()
}
