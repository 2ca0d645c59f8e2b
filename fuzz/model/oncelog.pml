/* The protocol of one key: two workers that may be asked to do it at any time,
 * again and again, a process that may crash at any step, a ledger that keeps what
 * is durable, and a check that tells the truth.
 *
 * Safety (G1): the effect happens at most once.
 * Progress: once crashes end, the key ends confirmed.
 *
 * Broken variants, each of which spin must refuse:
 *   -DMARKER_LAST     the marker is written after the effect
 *   -DRETRY_ON_DOUBT  an attempt without an outcome is released without a check
 */

#ifndef CRASHES
#define CRASHES 3
#endif
#define REFUSALS 2

mtype = { absent, accepted, executed, confirmed, released };

mtype ledger = absent;   /* what is durable */
byte epoch = 1;          /* of the process that lives */
byte owner = 0;          /* epoch of the last marker */
byte effects = 0;        /* how often it happened in the world */
byte crashes = 0;
byte refusals = 0;       /* attempts that proved that nothing happened */
bool told = false;       /* the backend has confirmed */
byte holder = 0;         /* the worker whose attempt runs; 0 for none: memory of the process */

/* Each worker looks at the ledger and takes one step; between two steps anything
 * may happen, a crash of the whole process included. A crash is seen as a change
 * of the epoch: whoever was in the middle starts over. */
#define ALIVE (my == epoch)

active [2] proctype worker()
{
	byte my;
	byte me = _pid + 1;
again:
	my = epoch;
	do
	:: atomic { ALIVE && (ledger == absent || ledger == released) && holder == 0 ->
		holder = me;
#ifndef MARKER_LAST
		ledger = accepted; owner = epoch
#endif
	   };
	   if
	   :: atomic { ALIVE && holder == me -> effects++ };
	      if
	      :: atomic { ALIVE && holder == me -> ledger = executed; owner = epoch; holder = 0 }
	      :: else -> goto again
	      fi
	   :: atomic { ALIVE && holder == me && refusals < REFUSALS -> /* NotApplied: nothing happened */
		refusals++; holder = 0; ledger = released }
	   :: else -> goto again
	   fi
	:: atomic { ALIVE && ledger == accepted && owner < epoch ->
		/* In doubt: its owner is gone. The check tells the truth. */
#ifdef RETRY_ON_DOUBT
		ledger = released
#else
		if
		:: effects > 0 -> ledger = executed
		:: effects == 0 -> ledger = released
		fi
#endif
	   }
	:: atomic { ALIVE && ledger == executed -> told = true };
	   if
	   :: atomic { ALIVE && ledger == executed -> ledger = confirmed }
	   :: else -> goto again
	   fi
	:: ALIVE && ledger == confirmed -> break
	:: !ALIVE -> goto again
	od
}

active proctype crash()
{
	do
	:: atomic { crashes < CRASHES && ledger != confirmed -> crashes++; epoch++; holder = 0 }
	:: crashes == CRASHES || ledger == confirmed -> break
	:: break
	od
}

ltl once { [] (effects <= 1) }
ltl settles { <> [] (ledger == confirmed && effects == 1 && told) }
