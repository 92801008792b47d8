/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a libvirt domain needs so that it can be traced
 */

#ifndef BTRAIL_TRACING_H
#define BTRAIL_TRACING_H

#include "libvirt/document.h"

/* The namespace of what is noted in the domain's metadata */
#define BTRAIL_TRACING_NAMESPACE "urn:backtrail:domain:1"

/* Where the service listens, unless its administrator says otherwise */
#define BTRAIL_TRACING_AGENT "/run/backtrail/agent.sock"

/**
 * struct btrail_tracing_options - what to set
 * @emulator: path of QEMU with Backtrail's patches, on the domain's host
 * @agent:    unix socket of the agent there, or NULL for none
 * @tcg:      a domain that runs under KVM shall run under TCG
 * @any_agent: a device that the domain has of its own may have another agent
 */
struct btrail_tracing_options {
    const char *emulator;
    const char *agent;
    bool tcg;
    bool any_agent;
};

/**
 * struct btrail_tracing_change - one setting
 * @where: path of an element, such as "devices/emulator"; "." is the domain
 * @attribute: of that, or NULL if it is about its content
 * @was:   NULL if there was nothing
 * @now:   NULL if there is nothing
 * @kept:  somebody has changed it since, and it stays as it is
 */
struct btrail_tracing_change {
    char *where;
    char *attribute;
    char *was;
    char *now;
    bool kept;
};

/**
 * btrail_tracing_enable - make a domain one that can be traced
 * @changes: of struct btrail_tracing_change; may be NULL.  To be unreferenced.
 *
 * What was there before is noted in the domain's metadata.  If that has been
 * done before, it is undone first: doing it twice is doing it once, and new
 * options take the place of the old ones.  On error the document is spoiled.
 */
bool btrail_tracing_enable(xmlDoc *doc,
                           const struct btrail_tracing_options *options,
                           GPtrArray **changes, GError **error);

/**
 * btrail_tracing_disable - undo it
 *
 * All is as it was before, but for what somebody else has changed since.
 * *@changes is empty if there was nothing to undo.
 */
bool btrail_tracing_disable(xmlDoc *doc, GPtrArray **changes, GError **error);

/**
 * struct btrail_tracing_state - what a domain has of it, as it is
 * @emulator:   its emulator, or NULL
 * @device:     the branch-trace device as it is given to QEMU, or NULL
 * @agent:      that device's agent, or NULL
 * @noted:      enable has been here
 * @kvm:        it runs under KVM
 * @shared:     its memory is one that an agent may be given to read
 * @vmcoreinfo: it tells where its kernel's symbols are
 * @panic:      it has a device by which it can tell that it has panicked
 */
struct btrail_tracing_state {
    char *emulator;
    char *device;
    char *agent;
    bool noted;
    bool kvm;
    bool shared;
    bool vmcoreinfo;
    bool panic;
};

bool btrail_tracing_inspect(xmlDoc *doc, struct btrail_tracing_state *state,
                         GError **error);
void btrail_tracing_state_clear(struct btrail_tracing_state *state);

#endif /* BTRAIL_TRACING_H */
