/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Capabilities: see privileges.h
 */

#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "privileges.h"

/* Since Linux 5.8; older headers do not have it. */
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif

/*
 * To follow all tasks (perf, or the process connector), to read what /proc has
 * of others' processes and their files, and addresses of the kernel
 */
static const unsigned kept[] = {
    CAP_PERFMON, CAP_NET_ADMIN, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SYSLOG,
};

static bool is_kept(unsigned cap)
{
    for (unsigned i = 0; i < sizeof(kept) / sizeof(*kept); i++) {
        if (kept[i] == cap) {
            return true;
        }
    }
    return false;
}

/* Sets what may be used; what else may be taken can only become less. */
static bool set(bool admin_permitted, bool admin_effective)
{
    struct __user_cap_header_struct header = {
        .version = _LINUX_CAPABILITY_VERSION_3,
    };
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    if (syscall(SYS_capget, &header, data)) {
        return false;
    }
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        uint32_t mask = 0, admin = i == CAP_SYS_ADMIN / 32 ?
                        UINT32_C(1) << CAP_SYS_ADMIN % 32 : 0;

        for (unsigned cap = 32 * i; cap < 32 * (i + 1); cap++) {
            mask |= is_kept(cap) ? UINT32_C(1) << (cap % 32) : 0;
        }
        data[i].permitted &= mask | (admin_permitted ? admin : 0);
        data[i].effective = data[i].permitted &
                            (mask | (admin_effective ? admin : 0));
        data[i].inheritable = 0;
    }
    return !syscall(SYS_capset, &header, data);
}

const char *privileges_drop(bool (*suffices)(void))
{
    /* Without CAP_SETPCAP this fails, and then none can be got anyhow. */
    for (unsigned cap = 0; cap < 64; cap++) {
        if (!is_kept(cap)) {
            prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
        }
    }
    if (!set(true, false) || (suffices() && !set(false, false))) {
        return "drop capabilities";
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
        return "renounce new privileges";
    }
    return NULL;
}

void privileges_admin(bool use)
{
    set(true, use);
}
