"""What answers may hold besides status and events, after the documentation of each courier."""

from __future__ import annotations

from typing import Any

from parser_subject import NUMBER

PROOF = "https://proof.example/7"
OTHER = "15509990000014"

TOLD: dict[str, tuple[Any, dict[str, object]]] = {
    "australia-post": (
        {
            "tracking_results": {
                "trackable_items": {"article_id": "CONSIGNED", "product_type": "eParcel"}
            }
        },
        {"service": "eParcel", "sub_parcels": ("CONSIGNED",)},
    ),
    "bpost": (
        {"itemTracking": {"customerReference": "Order 7", "itemDetail": {"weightInGrams": "1250"}}},
        {"weight_grams": 1250, "reference": "Order 7"},
    ),
    "bring": (
        {
            "consignmentSet": {
                "senderReference": "Order 7",
                "packageSet": [{"packageNumber": OTHER}],
            }
        },
        {"reference": "Order 7", "sub_parcels": (OTHER,)},
    ),
    "canada-post": (
        {"tracking-detail": {"service-name": "Expedited Parcels", "customer-ref-1": "Order 7"}},
        {"service": "Expedited Parcels", "reference": "Order 7"},
    ),
    "dhl": (
        {
            "shipments": {
                "details": {
                    "product": {"productName": "DOMESTIC EXPRESS"},
                    "weight": {"value": 12.5, "unitText": "kg"},
                    "references": [{"number": "Order 7", "type": "customer-reference"}],
                    "pieceIds": ["JD01", "JD02"],
                    "proofOfDelivery": {"signatureUrl": "string", "documentUrl": PROOF},
                },
                "status": {"statusCode": "delivered", "timestamp": "2026-01-05T08:15:00"},
            }
        },
        {
            "proof_of_delivery": PROOF,
            "weight_grams": 12500,
            "service": "DOMESTIC EXPRESS",
            "reference": "Order 7",
            "sub_parcels": ("JD01", "JD02"),
        },
    ),
    "dhl (MyDHL)": (
        {
            "shipments": {
                "productCode": "P",
                "totalWeight": 5.0,
                "unitOfMeasurements": "metric",
                "shipperReferences": [{"value": "Order 7", "typeCode": "CU"}],
                "pieces": [{"trackingNumber": "JD01"}],
            }
        },
        {"weight_grams": 5000, "service": "P", "reference": "Order 7", "sub_parcels": ("JD01",)},
    ),
    "dhl-germany": (
        {
            "piece-shipment": {
                "shipment-weight": "2.4",
                "product-name": "DHL PAKET",
                "shipment-customer-reference": "Order 7",
            }
        },
        {"weight_grams": 2400, "service": "DHL PAKET", "reference": "Order 7"},
    ),
    "fedex": (
        {
            "output": {
                "completeTrackResults": {
                    "trackResults": {
                        "serviceDetail": {"description": "FedEx Ground", "type": "FEDEX_GROUND"},
                        "packageDetails": {
                            "weightAndDimensions": {"weight": [{"unit": "LB", "value": "2.0"}]}
                        },
                        "additionalTrackingInfo": {
                            "packageIdentifiers": [
                                {"type": "TRANSPORTATION_CONTROL_NUMBER", "values": ["T"]},
                                {"type": "CUSTOMER_REFERENCE", "values": ["Order 7"]},
                            ]
                        },
                    }
                }
            }
        },
        {"weight_grams": 907, "service": "FedEx Ground", "reference": "Order 7"},
    ),
    "hermes-de": ({"shipmentinfo": {"clientReference": "Order 7"}}, {"reference": "Order 7"}),
    "inpost-paczkomaty": (
        {"service": "inpost_locker_standard"},
        {"service": "inpost_locker_standard"},
    ),
    "json_feed": (
        {
            "proof_of_delivery": PROOF,
            "weight_grams": 1250,
            "service": "Express",
            "reference": "Order 7",
            "sub_parcels": [OTHER],
        },
        {
            "proof_of_delivery": PROOF,
            "weight_grams": 1250,
            "service": "Express",
            "reference": "Order 7",
            "sub_parcels": (OTHER,),
        },
    ),
    "la-poste-colissimo": ({"shipment": {"product": "Colissimo"}}, {"service": "Colissimo"}),
    "postnl": (
        {
            "CompleteStatus": {
                "Shipment": {
                    "ProductDescription": "Standard shipment",
                    "Reference": "Order 7",
                    "Dimension": {"Weight": "4300"},
                }
            }
        },
        {"weight_grams": 4300, "service": "Standard shipment", "reference": "Order 7"},
    ),
    "postnord": (
        {
            "TrackingInformationResponse": {
                "shipments": {
                    "service": {"code": "19", "name": "MyPack Collect"},
                    "items": {
                        "statedWeight": {"value": "0.8", "unit": "kg"},
                        "references": [{"value": "Order 7", "type": "CU"}],
                    },
                }
            }
        },
        {"weight_grams": 800, "service": "MyPack Collect", "reference": "Order 7"},
    ),
    "royal-mail": (
        {"mailPieces": {"summary": {"productName": "Special Delivery Guaranteed"}}},
        {"service": "Special Delivery Guaranteed"},
    ),
    "ups": (
        {
            "trackResponse": {
                "shipment": {
                    "package": {
                        "weight": {"unitOfMeasurement": "LBS", "weight": "1.00"},
                        "service": {"code": "003", "description": "UPS Ground"},
                        "referenceNumber": [{"type": "SHIPMENT", "number": "Order 7"}],
                    }
                }
            }
        },
        {"weight_grams": 454, "service": "UPS Ground", "reference": "Order 7"},
    ),
    "usps": ({"mailClass": "Priority Mail<SUP>&reg;</SUP>"}, {"service": "Priority Mail\u00ae"}),
}
"""By courier: what its answer has besides, and what that is called here."""

SEVERAL: dict[str, Any] = {
    "bring": {
        "consignmentSet": {
            "packageSet": {
                "weightInKgs": 3.1,
                "productName": "Pakke i postkassen",
                "eventSet": {"recipientSignature": {"name": "J DOE", "linkToImage": PROOF}},
            }
        }
    },
    "postnl": {"CompleteStatus": {"Shipment": {"MainBarcode": NUMBER, "Barcode": OTHER}}},
    "postnord": {"TrackingInformationResponse": {"shipments": {"items": [{"itemId": OTHER}]}}},
    "ups": {"trackResponse": {"shipment": {"package": [{"trackingNumber": OTHER}]}}},
}
MORE: dict[str, dict[str, object]] = {
    "bring": {"weight_grams": 3100, "service": "Pakke i postkassen", "proof_of_delivery": PROOF},
    "postnl": {"sub_parcels": (OTHER,)},
    "postnord": {"sub_parcels": (OTHER,)},
    "ups": {"sub_parcels": (OTHER,)},
}
"""What fits into no single answer of a courier beside the above."""
