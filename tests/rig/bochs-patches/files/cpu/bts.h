/////////////////////////////////////////////////////////////////////////
//
//   Branch Trace Store: state of a logical processor
//
//  This library is free software; you can redistribute it and/or
//  modify it under the terms of the GNU Lesser General Public
//  License as published by the Free Software Foundation; either
//  version 2 of the License, or (at your option) any later version.
//
/////////////////////////////////////////////////////////////////////////

#ifndef BX_BTS_H
#define BX_BTS_H

// SDM vol. 4, IA32_DEBUGCTL; vol. 3, "IA32_DEBUGCTL MSR"
#define BX_DEBUGCTL_LBR                  (1 << 0)
#define BX_DEBUGCTL_BTF                  (1 << 1)
#define BX_DEBUGCTL_TR                   (1 << 6)
#define BX_DEBUGCTL_BTS                  (1 << 7)
#define BX_DEBUGCTL_BTINT                (1 << 8)
#define BX_DEBUGCTL_BTS_OFF_OS           (1 << 9)
#define BX_DEBUGCTL_BTS_OFF_USR          (1 << 10)
#define BX_DEBUGCTL_FREEZE_LBRS_ON_PMI   (1 << 11)
#define BX_DEBUGCTL_FREEZE_PERFMON       (1 << 12)
#define BX_DEBUGCTL_FREEZE_WHILE_SMM     (1 << 14)
#define BX_DEBUGCTL_RTM                  (1 << 15)

// The most that is made from one instruction boundary to the next: what a VM
// exit has left behind, an event that VM entry injects, a task switch and the
// exception in it.
#define BX_BTS_MAX_PENDING 8

struct bx_bts_record_t {
  Bit64u from, to;
};

struct bx_bts_t {
  bool ds;               // there is IA32_DS_AREA
  Bit64u allowed;        // bits of IA32_DEBUGCTL that are not reserved

  Bit64u debugctl;
  Bit64u ds_area;
  bool on;               // TR and BTS are set
  bool watched;          // branches are of interest: that, or BTF is set
  bool branched;         // since TF was last looked at

  // Records that are made, but not yet stored
  unsigned pending, stored;
  bx_bts_record_t record[BX_BTS_MAX_PENDING];
  bool storing;          // the next one is being stored right now

  bool strict;           // the CPU does no more than the SDM promises
  bool pmi_late;         // strict: an interrupt is on its way
  unsigned pmi_delay;    // and comes after so many instructions, if not 0
  bool injecting;        // strict: VM entry delivers an event

  Bit64u far_from;       // the instruction of the far branch in progress
  bool task_switched;    // it has switched tasks, but is not complete

  Bit64u smm_debugctl;   // what RSM restores
  bool smm_frozen;       // that is valid
};

#endif
