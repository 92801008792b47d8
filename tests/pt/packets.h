/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes packets of Intel PT (SDM vol. 3, "Packet Definitions")
 */
#ifndef PACKETS_H
#define PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#define PACKETS_TIP         0x0d
#define PACKETS_TIP_PGE     0x11
#define PACKETS_TIP_PGD     0x01
#define PACKETS_FUP         0x1d

#define PACKETS_MODE_16     0x00
#define PACKETS_MODE_64     0x01
#define PACKETS_MODE_32     0x02
#define PACKETS_MODE_TSX    0x20

/* The most bits of a long TNT */
#define PACKETS_TNT         47

struct packets {
    GByteArray *out;
    GRand *rand;
    uint64_t last_ip;
    bool any_form;              /* of IPs, each form that fits */
    bool whole;                 /* the next IP is not compressed */
    uint64_t forms[8];          /* how many IPs have each */
};

void packets_raw(struct packets *p, const void *bytes, size_t n);
void packets_tnt(struct packets *p, uint64_t bits, unsigned n);
void packets_ip(struct packets *p, unsigned opcode, uint64_t ip);
void packets_no_ip(struct packets *p, unsigned opcode);
void packets_psb(struct packets *p);
void packets_psbend(struct packets *p);
void packets_tsc(struct packets *p, uint64_t tsc);
void packets_tma(struct packets *p, unsigned ctc, unsigned fast);
void packets_mtc(struct packets *p, unsigned ctc);
void packets_cyc(struct packets *p, uint64_t cycles);
void packets_cbr(struct packets *p, unsigned ratio);
void packets_mode(struct packets *p, unsigned mode);
void packets_pip(struct packets *p, uint64_t cr3, bool guest);
void packets_vmcs(struct packets *p, uint64_t base);
void packets_ovf(struct packets *p);
/* With @ip, a FUP follows. */
void packets_ptw(struct packets *p, uint64_t value, bool wide, bool ip);
void packets_mwait(struct packets *p);
void packets_pwre(struct packets *p);
void packets_pwrx(struct packets *p);
void packets_exstop(struct packets *p, bool ip);
void packets_mnt(struct packets *p, uint64_t value);
void packets_pad(struct packets *p);

#endif
