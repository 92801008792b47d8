/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The XML of a domain that can be traced: making it so, undoing that, checking
 */

#ifndef BTRAIL_TRACING_H
#define BTRAIL_TRACING_H

#include "libvirt/document.h"

/* The namespace of our note in the domain's metadata */
#define TRACING_NAMESPACE "urn:backtrail:domain:1"

/* Where the service listens by default */
#define TRACING_AGENT "/run/backtrail/agent.sock"

/* What is after that path where ports for names connect to it */
#define TRACING_NAMES ".names"

/**
 * struct tracing_options - what to set
 * @emulator: path of QEMU with Backtrail's patches, on the domain's host
 * @agent:    unix socket of the agent there, or NULL for none
 * @tcg:      change a domain that runs under KVM to TCG
 * @any_agent: accept a device of the domain's own with another agent
 * @guest_names: give the guest a port, to @agent, through which it can say names
 */
struct tracing_options {
    const char *emulator;
    const char *agent;
    bool tcg;
    bool any_agent;
    bool guest_names;
};

/**
 * struct tracing_change - one setting
 * @where: path of an element, such as "devices/emulator"; "." is the domain
 * @attribute: of that element, or NULL for its content
 * @was:   value before, or NULL
 * @now:   value after, or NULL
 * @kept:  not undone, as it has been changed since
 */
struct tracing_change {
    char *where;
    char *attribute;
    char *was;
    char *now;
    bool kept;
};

/**
 * tracing_enable - change a domain so that it can be traced
 * @changes: of struct tracing_change; may be NULL.  To be unreferenced.
 *
 * The old values are noted in the domain's metadata.  If the domain is enabled
 * already, that is undone first, so that new options replace the old ones.  On
 * error the document is in an undefined state.
 */
bool tracing_enable(xmlDoc *doc,
                    const struct tracing_options *options,
                    GPtrArray **changes, GError **error);

/**
 * tracing_disable - undo tracing_enable()
 *
 * Restores the domain, except for settings that have been changed since.
 * *@changes is empty if there was nothing to undo.
 */
bool tracing_disable(xmlDoc *doc, GPtrArray **changes, GError **error);

/**
 * struct tracing_state - the settings of a domain that matter to tracing
 * @emulator:   its emulator, or NULL
 * @device:     the branch-trace device on QEMU's command line, or NULL
 * @agent:      that device's agent, or NULL
 * @noted:      the metadata has a note of tracing_enable()
 * @kvm:        it runs under KVM
 * @bits_64:    its CPU has 64 bits
 * @root_entry: the device says which entry of page tables KVM may use, or that
 *              the guest maps what KVM needs
 * @shared:     QEMU can share its memory with an agent
 * @partly:     but not that of a node or of a device of it
 * @vmcoreinfo: it can report where its kernel is
 * @panic:      it has a device to report a panic
 * @guest_names: it has a port through which the guest can say names
 */
struct tracing_state {
    char *emulator;
    char *device;
    char *agent;
    bool noted;
    bool kvm;
    bool bits_64;
    bool root_entry;
    bool shared;
    bool partly;
    bool vmcoreinfo;
    bool panic;
    bool guest_names;
};

bool tracing_inspect(xmlDoc *doc, struct tracing_state *state,
                         GError **error);
void tracing_state_clear(struct tracing_state *state);

#endif /* BTRAIL_TRACING_H */
