/*
 * KVM's interface for tracing a guest by BTS
 *
 * A copy of what is not in linux-headers/ yet.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef I386_KVM_BTS_TRACE_ABI_H
#define I386_KVM_BTS_TRACE_ABI_H

#include <linux/types.h>

#define KVM_CAP_X86_BTS_TRACE               240

#define KVM_EXIT_X86_BTS_TRACE              40

/* What struct kvm_run has from @padding on */
struct kvm_run_bts_trace {
    __u32 reason;
    __u32 off_reason;
};

#define KVM_BTS_TRACE_EXIT_FULL             1
#define KVM_BTS_TRACE_EXIT_OFF              2

/* Attribute of a vCPU */
#define KVM_VCPU_BTS_TRACE                  1
#define KVM_VCPU_BTS_TRACE_CONFIG           0

struct kvm_bts_trace {
#define KVM_BTS_TRACE_ENABLE                (1U << 0)
    __u32 flags;
    __u32 root_index;
    __u64 root_entry;
    __u64 ds_area;
    __u64 gpa;
    __u64 size;
    __u64 reserved[8];
};

/* Records that KVM makes: the type and the reason are in @from, CR3 is @to. */
#define KVM_BTS_TRACE_MARKER                0x4254530000000000ULL
#define KVM_BTS_TRACE_MARKER_MASK           0xffffffffffff0000ULL
#define KVM_BTS_TRACE_MARKER_TYPE(from)     ((from) & 0xff)
#define KVM_BTS_TRACE_MARKER_REASON(from)   (((from) >> 8) & 0xff)

#define KVM_BTS_TRACE_MARKER_CR3            1
#define KVM_BTS_TRACE_MARKER_OFF            2
#define KVM_BTS_TRACE_MARKER_ON             3

#define KVM_BTS_TRACE_OFF_MODE              1
#define KVM_BTS_TRACE_OFF_SMM               2
#define KVM_BTS_TRACE_OFF_NESTED            3
#define KVM_BTS_TRACE_OFF_GUEST             4
#define KVM_BTS_TRACE_OFF_ADDRESS_SPACE     5
#define KVM_BTS_TRACE_OFF_UNMAPPED          6
#define KVM_BTS_TRACE_OFF_EPT_FAULT         7
#define KVM_BTS_TRACE_OFF_OVERFLOW          8
#define KVM_BTS_TRACE_OFF_CORRUPT           9
#define KVM_BTS_TRACE_OFF_MEMORY            10

#endif /* I386_KVM_BTS_TRACE_ABI_H */
