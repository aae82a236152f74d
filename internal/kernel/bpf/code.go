// Package bpf has what the programs have in common that tare lets the kernel run: pieces of their code, what
// it takes to load them, and why a kernel refuses them.
package bpf

import (
	"github.com/cilium/ebpf/asm"
)

// Join puts pieces of code one after the other.
func Join(parts ...asm.Instructions) (all asm.Instructions) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// End is the end of a program. Others jump to its symbol "end".
func End() asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return()}
}

// Address puts the address of something on the stack, relative to the frame pointer, into a register.
func Address(to asm.Register, at int16) asm.Instructions {
	return asm.Instructions{asm.Mov.Reg(to, asm.RFP), asm.Add.Imm(to, int32(at))}
}

// OnMap sets a map, by its descriptor, and a key on the stack as the arguments of a function.
func OnMap(fd int, key int16) asm.Instructions {
	return Join(asm.Instructions{asm.LoadMapPtr(asm.R1, fd)}, Address(asm.R2, key))
}

// Lookup puts the address of a map's value into R0; 0 if the map has no such key.
func Lookup(fd int, key int16) asm.Instructions {
	return append(OnMap(fd, key), asm.FnMapLookupElem.Call())
}

// Update puts a value on the stack into a map. Flags are as the kernel's function takes them.
func Update(fd int, key, value int16, flags int32) asm.Instructions {
	return Join(OnMap(fd, key), Address(asm.R3, value), asm.Instructions{
		asm.Mov.Imm(asm.R4, flags),
		asm.FnMapUpdateElem.Call(),
	})
}
