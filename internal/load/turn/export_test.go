package turn

import "time"

// Patience sets how long the process may take to end a turn.
func (g *Giver) Patience(late time.Duration) { g.late = late }

// Patience sets how long the process waits for its next turn.
func (p *Page) Patience(d time.Duration) { p.patience = d }
