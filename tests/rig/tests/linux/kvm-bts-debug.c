/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that traces itself and steps through its own code: it asks for steps
 * from branch to branch (BTF), which KVM does not give to guests, and gets
 * those of TF; each debug exception has its records
 *
 * rig: linux=kvm_intel.bts=1
 */
#include "kvm-bts.h"

extern const char guest_begin[], g_db[], g_a[], g_b[], g_c[], g_d[], g_e[],
    g_f[], g_g[], g_h[], guest_end[];

asm(
    "   .pushsection .rodata\n"
    "   .code16\n"
    "guest_begin:\n"
    GUEST_SET_DS_AREA
    "   pushfw\n"
    "   movw    %sp, %bp\n"
    "   orw     $0x100, (%bp)\n"        /* TF */
    "   movl    $0x1d9, %ecx\n"         /* DEBUGCTL: BTF, TR, BTS */
    "   movl    $0xc2, %eax\n"
    "   wrmsr\n"
    "   popfw\n"
    "g_a: nop\n"
    "g_b: jmp g_c\n"
    "   hlt\n"
    "g_c: nop\n"
    "g_d: pushfw\n"
    "g_e: movw %sp, %bp\n"
    "g_f: andw $0xfeff, (%bp)\n"
    "g_g: popfw\n"
    "g_h: outb %al, $0x10\n"
    "   hlt\n"
    "g_db: iretw\n"
    "guest_end:\n"
    "   .code64\n"
    "   .popsection\n");

int main(void)
{
    const uint64_t db = AT(g_db);
    const uint64_t all[][2] = {
        /* An exception comes from where it returns to. */
        { AT(g_b), db }, { db, AT(g_b) },
        { AT(g_b), AT(g_c) },
        { AT(g_c), db }, { db, AT(g_c) },
        { AT(g_d), db }, { db, AT(g_d) },
        { AT(g_e), db }, { db, AT(g_e) },
        { AT(g_f), db }, { db, AT(g_f) },
        { AT(g_g), db }, { db, AT(g_g) },
        { AT(g_h), db }, { db, AT(g_h) },
    };
    uint64_t want[sizeof(all) / sizeof(all[0])][2];
    uint16_t handler = AT(g_db);
    unsigned n = 0;
    struct vm vm;

    /* KVM intercepts debug exceptions and injects them, of which the strict
       model makes no record. */
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (!BTS_STRICT || all[i][1] != db) {
            memcpy(want[n++], all[i], sizeof(all[i]));
        }
    }

    bts_or_skip();
    vm = vm_open(guest_begin, guest_end - guest_begin);
    vm_have_bts(&vm);
    vm_ds_area(&vm, 64, 1000);
    memcpy(vm.memory + 4, &handler, sizeof(handler));
    CHECK(vm_run(&vm) == 0x10);
    vm_check_records(&vm, want, n);
    CHECK(vm_get_msr(&vm, MSR_DEBUGCTL) == DEBUGCTL_ON);
    return 0;
}
